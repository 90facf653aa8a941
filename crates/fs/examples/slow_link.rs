//! Passes connections on, each byte later than it came: `slow_link MICROSECONDS LISTEN=TARGET...`. What `scripts/fs-bench` puts before
//! nodes to see what a network costs, where the kernel delays nothing. Ends when its standard input does.

#![allow(clippy::print_stdout, reason = "it tells who runs it that it listens")]

use std::{
    env, fs,
    io::{self, Read, Write},
    net::{TcpListener, TcpStream},
    sync::mpsc::{Receiver, SyncSender, sync_channel},
    thread,
    time::{Duration, Instant},
};

type Failure = Box<dyn std::error::Error + Send + Sync>;

fn main() -> Result<(), Failure> {
    let mut arguments = env::args().skip(1);
    let delay = Duration::from_micros(
        arguments.next().ok_or("usage: slow_link MICROSECONDS LISTEN=TARGET...")?.parse()?,
    );
    // Sleeps are to end when they should, and not up to 50 us later; threads inherit it.
    fs::write("/proc/self/timerslack_ns", "1")?;
    for link in arguments {
        let (listen, target) = link.split_once('=').ok_or("a link is LISTEN=TARGET")?;
        let (listener, target) = (TcpListener::bind(listen)?, target.to_owned());
        thread::spawn(move || {
            for accepted in listener.incoming().flatten() {
                // Who cannot be connected finds that the connection ends.
                let _refused = connect(accepted, &target, delay);
            }
        });
    }
    println!("listening");
    io::stdout().flush()?;
    io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}

fn connect(near: TcpStream, target: &str, delay: Duration) -> io::Result<()> {
    let far = TcpStream::connect(target)?;
    for (from, to) in [(near.try_clone()?, far.try_clone()?), (far, near)] {
        to.set_nodelay(true)?;
        let (come, go) = sync_channel(UNDER_WAY_MAX);
        thread::spawn(move || take(from, &come, delay));
        thread::spawn(move || give(to, &go));
    }
    Ok(())
}

fn take(mut from: TcpStream, come: &SyncSender<(Instant, Vec<u8>)>, delay: Duration) {
    let mut buffer = vec![0; 256 << 10];
    while let Ok(length @ 1..) = from.read(&mut buffer) {
        if come.send((Instant::now() + delay, buffer[..length].to_vec())).is_err() {
            return;
        }
    }
}

fn give(mut to: TcpStream, go: &Receiver<(Instant, Vec<u8>)>) {
    while let Ok((due, bytes)) = go.recv() {
        thread::sleep(due.saturating_duration_since(Instant::now()));
        if to.write_all(&bytes).is_err() {
            break;
        }
    }
    // It may have been closed by the other side.
    let _closed = to.shutdown(std::net::Shutdown::Write);
}

/// Pieces that are on their way in one direction of a connection.
const UNDER_WAY_MAX: usize = 1024;
