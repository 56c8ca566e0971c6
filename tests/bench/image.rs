//! `tests/bench-image.sh`: what it costs to stream an image through the agent instead of straight from its server.
//!
//! A small server sends the image over loopback HTTP. The reader (coreos-installer, or any program that reads an
//! address) takes turns: straight from that server, through the agent with a sample for the proof, and with a full
//! record. Each run is a process of its own, so that its CPU time includes the agent's; the server's is not counted.

#![expect(clippy::print_stdout, reason = "the table is what the program is for")]

use std::error::Error;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike as _;
use run_coreos_installer::act::Verify;
use run_coreos_installer::act::image::{Head, Image, Source};
use run_coreos_installer::act::stream::Stream;
use run_coreos_installer::clock::RealClock;
use run_coreos_installer::http::{Client, ServerSettings};
use run_coreos_installer::signals::Stop;

type Outcome<T> = Result<T, Box<dyn Error>>;

const USAGE: &str = "usage: image IMAGE ROUNDS READER [ARGUMENT...], with URL for the address";
/// How the reader gets the image.
const WAYS: [&str; 3] = ["straight", "sample", "full"];

fn main() -> Outcome<()> {
    // cargo bench passes --bench.
    let words: Vec<String> = std::env::args().skip(1).filter(|word| word != "--bench").collect();
    match words.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["serve", image] => serve(Path::new(image)),
        ["read", way, url, reader @ ..] => read(way, url, reader),
        [image, rounds, reader @ ..] if !reader.is_empty() => {
            measure(image, rounds.parse()?, reader)
        }
        _ => Err(USAGE.into()),
    }
}

/// Serves one file, whole or its beginning; prints the port.
fn serve(image: &Path) -> Outcome<()> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    println!("{}", listener.local_addr()?.port());
    let total = image.metadata()?.len();
    for socket in listener.incoming() {
        let mut socket = socket?;
        let mut lines = BufReader::new(socket.try_clone()?).lines();
        let (mut is_image, mut last) = (true, None);
        while let Some(line) = lines.next().transpose()?.filter(|line| !line.is_empty()) {
            is_image &= !line.contains(".sig HTTP");
            if let Some(range) = line.to_ascii_lowercase().strip_prefix("range: bytes=0-") {
                last = range.parse::<u64>().ok();
            }
        }
        let n_bytes = last.map_or(total, |last| total.min(last + 1));
        let status = match (is_image, last) {
            (false, _) => "404 X\r\n",
            (true, None) => "200 X\r\n",
            (true, Some(_)) => {
                &format!("206 X\r\nContent-Range: bytes 0-{}/{total}\r\n", n_bytes - 1)
            }
        };
        let n_bytes = if is_image { n_bytes } else { 0 };
        write!(socket, "HTTP/1.1 {status}Content-Length: {n_bytes}\r\nConnection: close\r\n\r\n")?;
        // A reader that ends early is not the server's fault.
        std::io::copy(&mut File::open(image)?.take(n_bytes), &mut socket).ok();
    }
    Ok(())
}

/// One run.
fn read(way: &str, url: &str, reader: &[&str]) -> Outcome<()> {
    let verify = match way {
        "sample" => Verify::Sample,
        "full" => Verify::Full,
        _ => return run(url, reader),
    };
    let mut settings = ServerSettings::new(url);
    settings.allow_plain_http = true;
    let client = Arc::new(Client::new(&settings, Arc::new(RealClock), Stop::default())?);
    let head = client.fetch_image_head(url)?;
    let head = Head::new(head.body, head.total_bytes);
    let source = Source::Url(url.to_owned());
    let image = Image { source, signature: None, digests: Vec::new(), is_insecure: true, head };
    let stream = Stream::start(image, &client, verify).map_err(|failure| failure.to_string())?;
    stream.begin();
    run(&stream.url(), reader)?;
    let facts = stream.facts().ok_or("the image was not read to its end")?;
    println!(
        "{} samples{}",
        facts.samples.len(),
        if facts.has_all_samples { "" } else { ", not all" }
    );
    Ok(())
}

fn run(url: &str, reader: &[&str]) -> Outcome<()> {
    let words: Vec<String> = reader.iter().map(|word| word.replace("URL", url)).collect();
    let status = Command::new(&words[0]).args(&words[1..]).stdout(Stdio::null()).status()?;
    if status.success() { Ok(()) } else { Err(format!("{}: {status}", words[0]).into()) }
}

/// Runs each way in turns and prints medians.
fn measure(image: &str, rounds: usize, reader: &[&str]) -> Outcome<()> {
    let this = std::env::current_exe()?;
    let mut server = Command::new(&this).args(["serve", image]).stdout(Stdio::piped()).spawn()?;
    let outcome = measure_with(&mut server, &this, image, rounds, reader);
    server.kill()?;
    server.wait()?;
    let (costs, said) = outcome?;
    println!("| way | wall ms | CPU ms | recorded |\n|---|---:|---:|---|");
    for ((way, costs), said) in WAYS.iter().zip(costs).zip(said) {
        let wall = median(costs.iter().map(|(wall, _)| *wall).collect());
        let cpu = median(costs.iter().map(|(_, cpu)| *cpu).collect());
        println!("| {way} | {wall} | {cpu} | {said} |");
    }
    Ok(())
}

/// Wall and CPU time of each run in ms, by way, and what the last one of each way said.
type Costs = (Vec<Vec<(u128, i64)>>, Vec<String>);

fn measure_with(
    server: &mut Child,
    this: &Path,
    image: &str,
    rounds: usize,
    reader: &[&str],
) -> Outcome<Costs> {
    let mut port = String::new();
    BufReader::new(server.stdout.take().ok_or("no output")?).read_line(&mut port)?;
    let name = Path::new(image).file_name().and_then(|name| name.to_str()).ok_or(USAGE)?;
    let url = format!("http://127.0.0.1:{}/{name}", port.trim());
    let mut costs = vec![Vec::new(); WAYS.len()];
    let mut said = vec![String::new(); WAYS.len()];
    for _ in 0..rounds.max(1) {
        for (at, way) in WAYS.iter().enumerate() {
            let (started, before) = (Instant::now(), cpu_ms()?);
            let output = Command::new(this).args(["read", way, &url]).args(reader).output()?;
            if !output.status.success() {
                let stderr = String::from_utf8_lossy(&output.stderr);
                return Err(format!("{way}: {}: {stderr}", output.status).into());
            }
            costs[at].push((started.elapsed().as_millis(), cpu_ms()? - before));
            String::from_utf8_lossy(&output.stdout).trim().clone_into(&mut said[at]);
        }
    }
    Ok((costs, said))
}

/// CPU time of all runs so far; the server still runs, so it is not among them.
fn cpu_ms() -> Outcome<i64> {
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN)?;
    Ok(usage.user_time().num_milliseconds() + usage.system_time().num_milliseconds())
}

fn median<T: Ord + Copy>(mut values: Vec<T>) -> T {
    values.sort_unstable();
    values[values.len() / 2]
}
