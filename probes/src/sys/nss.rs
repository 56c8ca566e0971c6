//! Name resolution without the host's NSS modules.
//!
//! A static glibc program that calls `getaddrinfo` reads `/etc/nsswitch.conf` and loads the modules
//! that it names, e.g. `libnss_resolve.so.2`, built against another glibc. `files` and `dns` are inside
//! glibc since 2.34, so the lookup is limited to these two. musl reads no nsswitch.conf at all.

/// Limits lookups of host names to `/etc/hosts` and DNS. Call it once, before the first thread starts.
///
/// Returns whether the C library accepted it; musl needs nothing, so the result is always `true`.
pub fn use_files_and_dns_only() -> bool {
    imp::configure()
}

#[cfg(target_env = "gnu")]
mod imp {
    use std::ffi::{CStr, c_char, c_int};

    const DATABASE: &CStr = c"hosts";
    const SERVICES: &CStr = c"files dns";

    #[expect(unsafe_code, reason = "declares the C function that glibc exports")]
    unsafe extern "C" {
        /// glibc `nss/nss.h`: sets the lookup of one database, as a line of nsswitch.conf would.
        fn __nss_configure_lookup(database: *const c_char, services: *const c_char) -> c_int;
    }

    #[expect(unsafe_code, reason = "glibc offers this as a C function only")]
    pub(super) fn configure() -> bool {
        // SAFETY: the declaration is that of nss.h; both pointers are of static strings that end in
        // NUL, and glibc copies what it keeps. It takes its own lock, so no other thread can see
        // a half-made table.
        unsafe { __nss_configure_lookup(DATABASE.as_ptr(), SERVICES.as_ptr()) == 0 }
    }
}

#[cfg(not(target_env = "gnu"))]
mod imp {
    pub(super) fn configure() -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn c_library_accepts_the_lookup() {
        assert!(super::use_files_and_dns_only());
    }
}
