//! Runs work on a separate thread, so that a panic costs only that work.
//!
//! The shipped binary does not unwind: the tables and code for it were a fifth of its size. So a panic is
//! reported to the caller that waits for the work, and its thread sleeps for the rest of the run. Where
//! panics unwind, in tests, the thread ends. A panic on any other thread ends the process.

use std::cell::RefCell;
use std::io;
use std::panic::{PanicHookInfo, set_hook, take_hook};
use std::sync::Once;
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::Duration;

/// The message of a panic.
pub type Panic = String;

type OnPanic = Box<dyn FnOnce(Panic)>;

thread_local! {
    /// Called when this thread panics.
    static ON_PANIC: RefCell<Option<OnPanic>> = const { RefCell::new(None) };
}

/// Runs `work` on a thread; if it panics, `on_panic` gets the message, on the same thread.
///
/// # Errors
/// If the kernel gives no thread.
pub fn spawn(
    name: &str,
    stack_bytes: usize,
    work: impl FnOnce() + Send + 'static,
    on_panic: impl FnOnce(Panic) + Send + 'static,
) -> io::Result<()> {
    install();
    let guarded = move || {
        ON_PANIC.with(|slot| drop(slot.replace(Some(Box::new(on_panic)))));
        work();
        ON_PANIC.with(|slot| drop(slot.take()));
    };
    thread::Builder::new().name(name.to_owned()).stack_size(stack_bytes).spawn(guarded).map(drop)
}

/// Runs `work` on a thread. Its result, or the message of its panic, arrives on the channel.
///
/// # Errors
/// If the kernel gives no thread.
pub fn ask<T: Send + 'static>(
    name: &str,
    stack_bytes: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> io::Result<Receiver<Result<T, Panic>>> {
    let (sender, answer) = mpsc::channel();
    let failed = sender.clone();
    let work = move || drop(sender.send(Ok(work())));
    spawn(name, stack_bytes, work, move |panic| drop(failed.send(Err(panic))))?;
    Ok(answer)
}

/// Why work has no result.
#[derive(Debug)]
pub enum Failure {
    /// The kernel gave no thread.
    NoThread(io::Error),
    /// The work ended with this panic.
    Panicked(Panic),
    /// It was not done in time.
    Late,
}

/// Runs `work` on a thread and waits for its result no longer than `limit`.
///
/// # Errors
/// The reason for a missing result.
pub fn within<T: Send + 'static>(
    limit: Duration,
    name: &str,
    stack_bytes: usize,
    work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, Failure> {
    let answer = ask(name, stack_bytes, work).map_err(Failure::NoThread)?;
    answer.recv_timeout(limit).map_err(|_| Failure::Late)?.map_err(Failure::Panicked)
}

/// Installs the guard in front of the current panic hook; set any other hook before the first call.
fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let unguarded = take_hook();
        set_hook(Box::new(move |panic| {
            let on_panic = ON_PANIC.try_with(|slot| slot.try_borrow_mut().ok()?.take());
            let Ok(Some(on_panic)) = on_panic else { return unguarded(panic) };
            on_panic(message(panic));
            // A hook that never returns holds the lock of the hooks, so no other can be set after it:
            // acceptable only where the alternative is the end of the process.
            while cfg!(panic = "abort") {
                thread::park();
            }
        }));
    });
}

/// The message of a panic, and its location if that is known: the static binary has none of libraries.
pub fn message(panic: &PanicHookInfo<'_>) -> Panic {
    let payload = panic.payload();
    let text = payload.downcast_ref::<String>().map(String::as_str);
    let text = text.or_else(|| payload.downcast_ref::<&str>().copied()).unwrap_or("no message");
    match panic.location() {
        Some(place) if place.line() > 0 => format!("{text} ({}:{})", place.file(), place.line()),
        _ => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const STACK_BYTES: usize = 256 << 10;

    #[test]
    fn panic_reaches_the_caller_and_later_work_still_runs() {
        let broken = ask("broken", STACK_BYTES, || -> u32 { panic!("out of cheese") }).unwrap();
        let text = broken.recv().unwrap().unwrap_err();
        assert!(text.starts_with("out of cheese (") && text.contains("guard.rs:"), "{text}");
        let whole = ask("whole", STACK_BYTES, || 7).unwrap();
        assert_eq!(whole.recv().unwrap(), Ok(7));
    }
}
