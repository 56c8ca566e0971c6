//! What a faulty machine is connected to: the simulated management controller, and a switch that sends LLDP frames.

use std::os::unix::net::UnixDatagram;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::Result;

use crate::bmc::{self, Identified};

/// The switch, the port at which the second cable is, and the one at which it is expected.
pub(crate) const SWITCH: &str = "leaf-17";
pub(crate) const WRONG_PORT: &str = "Ethernet13";
pub(crate) const RIGHT_PORT: &str = "Ethernet12";

/// Sockets of the guest's controller and of its second cable; removed when dropped.
pub(crate) struct Outside {
    pub(crate) folder: PathBuf,
    /// Whether the second cable has been moved to the right port.
    pub(crate) is_recabled: Arc<AtomicBool>,
    /// What the light of the chassis was asked for.
    pub(crate) identified: Identified,
}

impl Outside {
    pub(crate) fn new() -> Result<Self> {
        let folder = std::env::temp_dir().join(format!("rci-vm-faults-{}", std::process::id()));
        std::fs::create_dir_all(&folder)?;
        let identified = Identified::default();
        bmc::serve(folder.join("bmc"), Arc::clone(&identified));
        Ok(Self { folder, is_recabled: Arc::default(), identified })
    }

    /// Acts as the switch port: sends an LLDP frame every second and discards what the guest sends. Unread frames would
    /// fill the socket, and QEMU then polls it without pause.
    pub(crate) fn serve_switch(&self) -> Result<()> {
        let socket = UnixDatagram::bind(self.folder.join("switch"))?;
        socket.set_read_timeout(Some(Duration::from_millis(100)))?;
        let (guest, folder) = (self.folder.join("port"), self.folder.clone());
        let is_recabled = Arc::clone(&self.is_recabled);
        std::thread::spawn(move || {
            let mut last = Instant::now();
            while folder.exists() {
                while socket.recv(&mut [0; 2048]).is_ok() {}
                if last.elapsed() > Duration::from_secs(1) {
                    last = Instant::now();
                    let is_right = is_recabled.load(Ordering::SeqCst);
                    let port = if is_right { RIGHT_PORT } else { WRONG_PORT };
                    // Before QEMU listens, and while its queue is full, the frame is lost, as on a wire.
                    socket.send_to(&lldp_frame(SWITCH, port), &guest).ok();
                }
            }
        });
        Ok(())
    }
}

impl Drop for Outside {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.folder).ok();
    }
}

/// An LLDP frame (IEEE 802.1AB-2016 §8): chassis by MAC address, port by interface name, time to live, system name.
fn lldp_frame(system: &str, port: &str) -> Vec<u8> {
    let chassis = [0x3c, 0xec, 0xef, 0, 0, 0x17];
    let mut frame = vec![0x01, 0x80, 0xc2, 0, 0, 0x0e];
    frame.extend(chassis);
    frame.extend([0x88, 0xcc]);
    let mut add = |kind: u8, value: &[u8]| {
        frame.extend([kind << 1, u8::try_from(value.len()).unwrap_or(u8::MAX)]);
        frame.extend(value);
    };
    add(1, &[&[4], &chassis[..]].concat());
    add(2, &[&[5], port.as_bytes()].concat());
    add(3, &120_u16.to_be_bytes());
    add(5, system.as_bytes());
    add(0, &[]);
    frame.resize(frame.len().max(60), 0);
    frame
}
