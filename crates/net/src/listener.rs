//! The end that listens.

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use parking_lot::Mutex;
use tokio::{
    net::{TcpListener, UnixListener},
    sync::Notify,
    task::{JoinHandle, JoinSet},
    time::sleep,
};
use tyr_wire::connection::{Connection, Introduction, Refusal};

use crate::{
    Address, Settings,
    link::{Handler, Link},
    run::Running,
    stream::Stream,
};

/// Takes connections at one address until it is closed.
#[derive(Debug)]
pub struct Listener {
    address: Address,
    me: Arc<Mutex<Introduction>>,
    closing: Arc<Notify>,
    task: JoinHandle<()>,
}

/// What all connections of a listener have in common.
struct Accepting {
    socket: Socket,
    me: Arc<Mutex<Introduction>>,
    handler: Arc<dyn Handler>,
    settings: Settings,
    links: Mutex<BTreeMap<u64, Link>>,
}

#[derive(Debug)]
enum Socket {
    Tcp(TcpListener),
    Unix(UnixListener, PathBuf),
}

impl Listener {
    /// Begins to listen, in the runtime that this is called in. A Unix socket at whose path nobody listens any more is replaced.
    pub async fn bind(
        address: &Address,
        me: Introduction,
        handler: Arc<dyn Handler>,
        settings: Settings,
    ) -> io::Result<Self> {
        let socket = Socket::bind(address).await?;
        let address = socket.address()?;
        let closing = Arc::new(Notify::new());
        let me = Arc::new(Mutex::new(me));
        let accepting =
            Arc::new(Accepting { socket, me: me.clone(), handler, settings, links: Mutex::default() });
        let task = tokio::spawn(accept(accepting, closing.clone()));
        Ok(Listener { address, me, closing, task })
    }

    /// Where it listens, with the port that the system chose.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Says from now on that it is somebody else: a newcomer that has got its number.
    pub fn introduce(&self, me: Introduction) {
        *self.me.lock() = me;
    }

    /// Takes no more connections, and ends those that there are after what was handed in to them is sent.
    pub async fn close(mut self) {
        self.closing.notify_one();
        // It ends by itself; if it panicked, there is nobody left to be told.
        let _ = (&mut self.task).await;
    }
}

/// Ends at once, with all connections.
impl Drop for Listener {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn accept(accepting: Arc<Accepting>, closing: Arc<Notify>) {
    let mut running = JoinSet::new();
    let mut count = 0;
    loop {
        tokio::select! {
            stream = accepting.socket.accept() => match stream {
                // Those who are being told that there is no room take some, too.
                Ok(_) if running.len() >= accepting.settings.connections_max.saturating_mul(2) => {}
                Ok(stream) => {
                    let refusal = running.len() >= accepting.settings.connections_max;
                    let refusal = refusal.then_some(Refusal::TooManyConnections);
                    count += 1;
                    running.spawn(accepting.clone().serve(count, stream, refusal));
                }
                // Too many open files, for instance: that passes, and to try again at once would not help.
                Err(_) => sleep(accepting.settings.wait_min).await,
            },
            Some(_) = running.join_next() => {}
            () = closing.notified() => break,
        }
    }
    accepting.links.lock().values().for_each(Link::close);
    let patience = sleep(accepting.settings.silence_max);
    tokio::pin!(patience);
    while !running.is_empty() {
        tokio::select! {
            _ = running.join_next() => {}
            () = &mut patience => running.shutdown().await,
        }
    }
    if let Socket::Unix(_, path) = &accepting.socket {
        // Who listens there next replaces it anyway.
        let _ = std::fs::remove_file(path);
    }
}

impl Accepting {
    async fn serve(self: Arc<Self>, number: u64, stream: Stream, refusal: Option<Refusal>) {
        let link = Link::new(&self.settings);
        self.links.lock().insert(number, link.clone());
        let mut connection = Connection::listen(self.me.lock().clone());
        if let Some(refusal) = refusal {
            connection.refuse(refusal);
        }
        Running::new(stream, connection, &link, &self.handler, &self.settings).run().await;
        link.close();
        self.links.lock().remove(&number);
    }
}

impl Socket {
    async fn bind(address: &Address) -> io::Result<Self> {
        match address {
            Address::Tcp(host) => Ok(Socket::Tcp(TcpListener::bind(host).await?)),
            Address::Unix(path) => Ok(Socket::Unix(bind_unix(path)?, path.clone())),
        }
    }

    fn address(&self) -> io::Result<Address> {
        Ok(match self {
            Socket::Tcp(listener) => Address::Tcp(listener.local_addr()?.to_string()),
            Socket::Unix(_, path) => Address::Unix(path.clone()),
        })
    }

    async fn accept(&self) -> io::Result<Stream> {
        match self {
            Socket::Tcp(listener) => Stream::tcp(listener.accept().await?.0),
            Socket::Unix(listener, _) => Ok(Stream::Unix(listener.accept().await?.0)),
        }
    }
}

/// Listens at a path. A process that died leaves a socket behind at which nobody listens: that one is in nobody's way.
fn bind_unix(path: &Path) -> io::Result<UnixListener> {
    let error = match UnixListener::bind(path) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => error,
        result => return result,
    };
    match std::os::unix::net::UnixStream::connect(path) {
        Err(refused) if refused.kind() == io::ErrorKind::ConnectionRefused => {
            std::fs::remove_file(path)?;
            UnixListener::bind(path)
        }
        _ => Err(error),
    }
}
