//! An instruction's `install` as an order.

use crate::act::{DiskChoice, Expect, IgnitionSource, ImageSource, Order, StreamSource};
use crate::api;

// Every key is named, so that a new one cannot be forgotten.
impl From<api::Install> for Order {
    fn from(install: api::Install) -> Self {
        let api::Install {
            ignition: api::IgnitionSource { url, inline, hash },
            check_pointers,
            image,
            disk,
            expect,
            append_kargs,
            delete_kargs,
            platform,
            console,
            copy_network,
            firstboot_args,
            save_partlabel,
            save_partindex,
            block_on,
            block_also,
            block_except,
            existing_data,
            overrides,
            protect,
            protect_missing,
            verify,
            on_unproved,
            boot_order,
            again,
            reinstall,
            confirm: _,
        } = install;
        Self {
            ignition: IgnitionSource {
                url,
                inline,
                hash,
                skip_pointers: check_pointers == Some(false),
            },
            image: image.map(ImageSource::from),
            disk: disk.map(DiskChoice::from),
            expect: expect.map(Expect::from),
            append_kargs,
            delete_kargs,
            platform,
            console,
            copy_network: copy_network.unwrap_or_default(),
            firstboot_args,
            save_partlabel,
            save_partindex,
            block_on,
            block_also,
            block_except,
            existing_data,
            overrides,
            protect,
            protect_missing,
            verify: verify.unwrap_or_default(),
            on_unproved: on_unproved.unwrap_or_default(),
            boot_order: boot_order.unwrap_or_default(),
            again: again.unwrap_or_default(),
            reinstall: reinstall.unwrap_or_default(),
            ..Self::default()
        }
    }
}

impl From<api::Expect> for Expect {
    fn from(api::Expect { serial, wwn, size_bytes }: api::Expect) -> Self {
        Self { serial, wwn, size_bytes }
    }
}

impl From<api::ImageSource> for ImageSource {
    fn from(image: api::ImageSource) -> Self {
        let api::ImageSource {
            url,
            file,
            stream,
            insecure,
            hash,
            uncompressed_bytes,
            sector_bytes,
        } = image;
        let stream = stream.map(|api::StreamSource { url, architecture, artifact }| StreamSource {
            url,
            architecture,
            artifact,
        });
        let insecure = insecure.unwrap_or_default();
        Self { url, file, stream, insecure, hash, uncompressed_bytes, sector_bytes }
    }
}

impl From<api::DiskChoice> for DiskChoice {
    fn from(choice: api::DiskChoice) -> Self {
        let api::DiskChoice { device, hints, if_several } = choice;
        Self { device, hints, if_several: if_several.unwrap_or_default() }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::act::{IfSeveral, OnUnproved, Verify};

    /// The order of an instruction's `install`, which may lack the Ignition config.
    pub(crate) fn of(install: &Value) -> Order {
        let mut install = install.clone();
        if install.get("ignition").is_none() {
            install["ignition"] = json!({});
        }
        serde_json::from_value::<api::Install>(install).unwrap().into()
    }

    #[test]
    fn keys_that_are_absent_have_the_api_s_defaults() {
        let order = of(&json!({"disk": {"device": "/dev/sda"}, "image": {"url": "https://h/i"}}));
        assert_eq!((order.verify, order.on_unproved), (Verify::Full, OnUnproved::Erase));
        assert_eq!(order.disk.unwrap().if_several, IfSeveral::Refuse);
        assert!(!order.copy_network && !order.image.unwrap().insecure);
        assert_eq!((order.existing_data, order.block_on), (None, None));
    }
}
