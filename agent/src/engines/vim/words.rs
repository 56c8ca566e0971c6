//! A VIM's names for the parts of an order: the keys of VIM API v1.

use crate::act::say::{Term, plain};

/// The word of a VIM for a term.
pub fn words(term: Term) -> &'static str {
    match term {
        Term::Order => "the instruction",
        Term::Record => "the VIM's record",
        Term::IgnitionHash | Term::ImageHash => "the VIM's hash",
        Term::NameImage => "name an image in the instruction",
        Term::AllowUnsigned => "set insecure in the instruction",
        Term::ExceptFinding => "name it in block_except of the instruction",
        Term::OrIfSeveral => ", or set if_several",
        Term::OrSkipPointers => ", or set check_pointers to false",
        Term::SetWipe => "set existing_data to wipe",
        Term::Reinstall => "set install.reinstall",
        Term::AddOverride => "add to install.override: ",
        Term::Ignition => "install.ignition",
        Term::Image => "install.image",
        Term::Device => "install.disk.device",
        Term::Hints => "install.disk.hints",
        Term::Verify => "install.verify",
        Term::ImageHashKey
        | Term::Insecure
        | Term::ExistingData
        | Term::BlockAlso
        | Term::BlockExcept
        | Term::KernelArguments
        | Term::AppendKargs
        | Term::DeleteKargs
        | Term::Console
        | Term::Platform
        | Term::FirstbootArgs
        | Term::CopyNetwork
        | Term::SavePartlabel
        | Term::SavePartindex => plain(term),
    }
}
