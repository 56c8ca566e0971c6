//! Advice on a failure, by its code.

use super::{Code, Say, Term, say};

/// Returns the advice on a failure.
pub fn advice(code: Code) -> Say {
    let text = match code {
        Code::DiskBusy => {
            "unmount it, stop the array or volume group, or boot without device auto-activation"
        }
        Code::Signature => {
            return say!["publish the image's .sig next to it, or ", Term::AllowUnsigned];
        }
        Code::SectorSize => "use an image made for the disk's sector size",
        Code::NoSpace | Code::DiskTooSmall => "choose a larger disk or a smaller image",
        Code::MediumLost => {
            "keep the live medium inserted until the install is done, or boot with coreos.liveiso.fromram"
        }
        Code::IgnitionHash => "the config was changed before it reached the disk; start again",
        Code::TargetIo => "the disk cannot be written; check the kernel log and replace it",
        Code::TargetHung => {
            "check the kernel log, cables and power of the disk and its controller; power the machine \
             off before another try"
        }
        Code::Kargs => return say!["correct ", Term::KernelArguments],
        Code::SavedPartition => {
            return say![
                "correct ",
                Term::SavePartlabel,
                " and ",
                Term::SavePartindex,
                ", or check the disk"
            ];
        }
        Code::Network => {
            return say!["provide NetworkManager profiles or remove ", Term::CopyNetwork];
        }
        Code::ImageFetch | Code::Http(_) | Code::ImageStalled => {
            "make the image reachable from the node"
        }
        Code::ImageHash => {
            return say![
                "the image was changed, or ",
                Term::ImageHash,
                " belongs to another image"
            ];
        }
        Code::ImageTruncated => "upload the image to its server again, completely",
        Code::ImageInvalid => {
            "give the metal image of the release, such as fedora-coreos-…-metal.x86_64.raw.xz; qemu-img convert -O raw \
             converts qcow2, VMDK and VHDX images"
        }
        Code::ImageChanged => "do not replace images on their server while nodes install them",
        _ => "read the log of coreos-installer that comes with this result",
    };
    text.into()
}
