//! IPv4 routes: `/proc/net/route` (`fib_route_seq_show` in `net/ipv4/fib_trie.c`), by procfs-core.

use procfs_core::FromBufRead as _;
use procfs_core::net::RouteEntries;
pub use procfs_core::net::RouteEntry;

/// Parses one line; `None` for the heading and for a damaged line, which would cost procfs-core the whole file.
///
/// The addresses are decoded in this program's byte order, which is little-endian as that of every supported
/// architecture.
pub fn parse_line(line: &str) -> Option<RouteEntry> {
    // It skips the first line as the heading.
    let entries = RouteEntries::from_buf_read(format!("\n{line}").as_bytes()).ok()?;
    entries.0.into_iter().next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heading_and_damaged_lines_are_no_routes() {
        let line = "eth0\t0002000C\t00000000\t0001\t0\t0\t100\t00FFFFFF\t0\t0\t0";
        assert_eq!(parse_line(line).unwrap().destination.to_string(), "12.0.2.0");
        let heading =
            "Iface\tDestination\tGateway\tFlags\tRefCnt\tUse\tMetric\tMask\tMTU\tWindow\tIRTT";
        for wrong in ["", heading, "eth0", &line[..40], "é 1 2 3 4 5 6 7 8 9 x"] {
            assert!(parse_line(wrong).is_none(), "{wrong}");
        }
        crate::testing::survives_any_bytes(line.as_bytes(), |bytes| {
            drop(parse_line(&String::from_utf8_lossy(bytes)));
        });
    }
}
