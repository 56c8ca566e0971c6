//! The description of a pool or volume group on its member: the label of a ZFS device, the metadata area of an LVM physical volume.
#![no_main]

use formats::lvm::group;
use formats::zfs;

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    if let Some(label) = zfs::label(data) {
        assert_ne!(label.n_top_level, Some(0), "a pool of no devices");
        let _ = label.least_devices();
    }
    for at in group::areas(data) {
        assert_ne!(at, 0, "an area in the label itself");
    }
    for range in group::text_ranges(data).into_iter().flatten() {
        let n_bytes =
            range.end.checked_sub(range.start).expect("a range that ends before it begins");
        assert!((1..=group::MAX_TEXT_BYTES as u64).contains(&n_bytes), "{range:?}");
    }
    if let Some(found) = group::parse(data) {
        assert!(!found.name.is_empty() && found.id.is_some(), "{found:?}");
    }
});
