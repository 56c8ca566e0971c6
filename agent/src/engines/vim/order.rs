//! An instruction's `install` as an order.

use crate::act::{
    BlockOn, DiskChoice, ExistingDataPolicy, Expect, IfSeveral, IgnitionSource, ImageSource,
    OnUnproved, Order, StreamSource, Verify,
};
use crate::api;

// Every key is named, so that a new one cannot be forgotten.
impl From<api::Install> for Order {
    fn from(install: api::Install) -> Self {
        let api::Install {
            ignition: api::IgnitionSource { url, inline, hash },
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
            protect,
            verify,
            on_unproved,
        } = install;
        Self {
            ignition: IgnitionSource { url, inline, hash },
            image: image.map(ImageSource::from),
            disk: disk.map(DiskChoice::from),
            expect: expect.map(|api::Expect { serial, wwn, size_bytes }| Expect {
                serial,
                wwn,
                size_bytes,
            }),
            append_kargs,
            delete_kargs,
            platform,
            console,
            copy_network: copy_network.unwrap_or_default(),
            firstboot_args,
            save_partlabel,
            save_partindex,
            block_on: block_on.map(BlockOn::from),
            block_also,
            block_except,
            existing_data: existing_data.map(ExistingDataPolicy::from),
            protect,
            verify: verify.unwrap_or_default().into(),
            on_unproved: on_unproved.unwrap_or_default().into(),
        }
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
        let if_several = if_several.map(|policy| match policy {
            api::IfSeveral::Refuse => IfSeveral::Refuse,
            api::IfSeveral::Smallest => IfSeveral::Smallest,
            api::IfSeveral::Largest => IfSeveral::Largest,
            api::IfSeveral::First => IfSeveral::First,
            api::IfSeveral::FirstByPath => IfSeveral::FirstByPath,
        });
        Self { device, hints, if_several: if_several.unwrap_or_default() }
    }
}

impl From<api::ExistingDataPolicy> for ExistingDataPolicy {
    fn from(policy: api::ExistingDataPolicy) -> Self {
        match policy {
            api::ExistingDataPolicy::Refuse => Self::Refuse,
            api::ExistingDataPolicy::Coreos => Self::Coreos,
            api::ExistingDataPolicy::Wipe => Self::Wipe,
        }
    }
}

impl From<api::Verify> for Verify {
    fn from(verify: api::Verify) -> Self {
        match verify {
            api::Verify::Sample => Self::Sample,
            api::Verify::Full => Self::Full,
        }
    }
}

impl From<api::OnUnproved> for OnUnproved {
    fn from(action: api::OnUnproved) -> Self {
        match action {
            api::OnUnproved::Erase => Self::Erase,
            api::OnUnproved::Keep => Self::Keep,
        }
    }
}

impl From<api::BlockOn> for BlockOn {
    fn from(block_on: api::BlockOn) -> Self {
        match block_on {
            api::BlockOn::Critical => Self::Critical,
            api::BlockOn::Warning => Self::Warning,
            api::BlockOn::Never => Self::Never,
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use serde_json::{Value, json};

    use super::*;

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
        assert_eq!((order.verify, order.on_unproved), (Verify::Sample, OnUnproved::Erase));
        assert_eq!(order.disk.unwrap().if_several, IfSeveral::Refuse);
        assert!(!order.copy_network && !order.image.unwrap().insecure);
        assert_eq!((order.existing_data, order.block_on), (None, None));
    }
}
