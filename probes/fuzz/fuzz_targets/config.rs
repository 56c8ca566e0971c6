//! The configuration file, kernel arguments and environment.
#![no_main]

use run_coreos_installer::config::{Sources, configure, kernel_arguments, parse_file};

libfuzzer_sys::fuzz_target!(|data: &[u8]| {
    let line = String::from_utf8_lossy(data);
    let _ = (formats::command_line::fields(&line), formats::command_line::without_secrets(&line));
    let [kernel, environment, file] = fuzz::pieces(data).map(String::from_utf8_lossy);
    let sources = Sources {
        file: parse_file(&file, "agent.yaml").unwrap_or_default(),
        file_name: "agent.yaml".to_owned(),
        file_text: file.clone().into_owned(),
        kernel: kernel_arguments(&kernel),
        environment: environment
            .lines()
            .filter_map(|line| line.split_once('='))
            .map(|(name, value)| (name.to_owned(), value.to_owned()))
            .collect(),
        ramdisk: Vec::new(),
    }
    .with_ramdisk(&kernel);
    for command in ["install", "inspect"] {
        configure(&["agent".into(), command.into()], &sources, true).ok();
    }
});
