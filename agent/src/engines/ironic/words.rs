//! Ironic's names for the parts of an order: keys of the node, of its config drive, and arguments of the step.

use crate::act::say::{Term, plain};

/// The word of Ironic for a term.
pub fn words(term: Term) -> &'static str {
    match term {
        Term::Order => "instance_info",
        Term::Record => "Ironic's record",
        Term::IgnitionHash => "the hash in user_data",
        Term::ImageHash => "the checksum in instance_info",
        Term::NameImage => "set image_source in instance_info",
        Term::Image => "image_source",
        Term::AllowUnsigned => {
            "set allow-insecure-image in the configuration of the agent, or image_os_hash_algo and image_os_hash_value \
             (sha256 or sha512) in instance_info"
        }
        Term::ExceptFinding => "name it in the step's argument block_except",
        Term::OrIfSeveral => ", in root_device",
        Term::SetWipe => "set the step's argument existing_data to wipe",
        Term::Reinstall => "deploy the node again",
        Term::AddOverride => "add to the step's argument override: ",
        Term::Ignition => "user_data of the config drive",
        Term::ImageHashKey => "image_os_hash_value",
        Term::Insecure => "allow-insecure-image",
        Term::Device | Term::Hints => "root_device",
        Term::KernelArguments => "coreos_append_karg, delete_kargs, platform and console",
        Term::AppendKargs => "coreos_append_karg",
        Term::CopyNetwork => "coreos_copy_network",
        Term::ExistingData
        | Term::BlockAlso
        | Term::BlockExcept
        | Term::DeleteKargs
        | Term::Console
        | Term::Platform
        | Term::FirstbootArgs
        | Term::SavePartlabel
        | Term::SavePartindex
        | Term::OrSkipPointers
        | Term::Verify => plain(term),
    }
}
