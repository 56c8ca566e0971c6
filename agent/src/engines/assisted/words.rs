//! assisted-service's names for the parts of an order: keys of the step `install` and its `installer_args`.

use crate::act::say::{Term, plain};

/// The word of assisted-service for a term.
pub fn words(term: Term) -> &'static str {
    match term {
        Term::Order => "the service",
        Term::Record => "the service's inventory",
        Term::IgnitionHash | Term::ImageHash => "the service's hash",
        Term::NameImage => "set --image-url in installer_args",
        Term::AllowUnsigned => "set allow-insecure-image in the configuration of the agent",
        Term::ExceptFinding => "name it in block-except in the configuration of the agent",
        Term::OrIfSeveral => ", in the service",
        Term::SetWipe => "erase it by hand",
        Term::Reinstall => "install the host again",
        Term::AddOverride => "install without the service and with --override ",
        Term::Ignition => "the host's Ignition config",
        Term::Image => "--image-url",
        Term::Insecure => "allow-insecure-image",
        Term::Device | Term::Hints => "boot_device",
        Term::BlockAlso => "block-also",
        Term::BlockExcept => "block-except",
        Term::KernelArguments => "--append-karg and --delete-karg in installer_args",
        Term::AppendKargs => "--append-karg",
        Term::DeleteKargs => "--delete-karg",
        Term::CopyNetwork => "--copy-network",
        Term::SavePartlabel => "--save-partlabel",
        Term::SavePartindex => "--save-partindex",
        Term::ImageHashKey
        | Term::ExistingData
        | Term::Console
        | Term::Platform
        | Term::FirstbootArgs
        | Term::OrSkipPointers
        | Term::Verify => plain(term),
    }
}
