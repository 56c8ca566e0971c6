//! LLDP frames: a listener's recording, and a single frame.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let _ = formats::lldp::fields(data);
    let Some((form, data)) = data.split_first() else { return };
    let answer = if form % 2 == 0 {
        data.to_vec()
    } else {
        let length = u16::try_from(data.len()).unwrap_or(u16::MAX);
        let frame = &data[..usize::from(length)];
        [&[1, 4], length.to_be_bytes().as_slice(), b"eth0", frame].concat()
    };
    let machine = fuzz::machine(&[("kernel/lldp/frames", &answer)]);
    let _ = probes::network::neighbours(&machine);
});
