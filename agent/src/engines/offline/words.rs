//! A configuration's names for the parts of an order: the options of `install` without a VIM.

use crate::act::say::Term;

/// The word of the command line for a term.
pub fn words(term: Term) -> &'static str {
    match term {
        Term::Order | Term::Record => "the configuration",
        Term::IgnitionHash => "--ignition-hash",
        Term::ImageHash | Term::ImageHashKey => "--image-hash",
        Term::NameImage => "name an image with --image",
        Term::AllowUnsigned => "set --allow-insecure-image",
        Term::ExceptFinding => "name it with --block-except",
        Term::OrIfSeveral => ", with --disk or --hints",
        Term::OrSkipPointers => ", or set --skip-pointers",
        Term::SetWipe => "set --existing-data wipe",
        Term::Reinstall => "set --reinstall",
        Term::AddOverride => "set --override ",
        Term::Ignition => "--ignition",
        Term::Image => "--image",
        Term::Insecure => "--allow-insecure-image",
        Term::Device => "--disk",
        Term::Hints => "--hints",
        Term::ExistingData => "--existing-data",
        Term::BlockAlso => "--block-also",
        Term::BlockExcept => "--block-except",
        Term::KernelArguments => "--append-karg, --delete-karg, --platform and --console",
        Term::AppendKargs => "--append-karg",
        Term::DeleteKargs => "--delete-karg",
        Term::Console => "--console",
        Term::Platform => "--platform",
        Term::FirstbootArgs => "--firstboot-args",
        Term::CopyNetwork => "--copy-network",
        Term::SavePartlabel => "--save-partlabel",
        Term::SavePartindex => "--save-partindex",
        Term::Verify => "--verify",
    }
}
