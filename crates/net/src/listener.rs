//! The end that listens.

use std::{
    collections::HashMap,
    io, iter,
    path::{Path, PathBuf},
    sync::Arc,
};

use parking_lot::Mutex;
use tokio::{
    net::{TcpListener, UnixListener},
    sync::Notify,
    task::{Id, JoinError, JoinSet},
    time::sleep,
};
use tyr_wire::connection::{Connection, Introduction, Refusal};

use crate::{
    Address, Settings, Tls,
    attempt::Attempt,
    credential::random,
    link::{End, Handler, Link},
    run::Running,
    stream::Accepted,
    task::Task,
};

/// Takes connections at one address until it is closed. Dropped, it ends at once, with all connections.
#[derive(Debug)]
pub struct Listener {
    address: Address,
    me: Arc<Mutex<Introduction>>,
    closing: Arc<Notify>,
    renamed: Arc<Notify>,
    task: Task,
}

/// The task of a listener, and the connections that it has taken.
struct Accepting {
    me: Arc<Mutex<Introduction>>,
    handler: Arc<dyn Handler>,
    settings: Settings,
    running: JoinSet<bool>,
    links: HashMap<Id, Link>,
}

/// An address that is nobody else's: whoever connects waits until a [`Listener`] listens there.
#[derive(Debug)]
pub struct Place(Socket);

#[derive(Debug)]
enum Socket {
    Tcp(TcpListener),
    Unix(Entry, UnixListener),
}

impl Place {
    /// Takes the address, in the runtime that this is called in. A Unix socket at whose path nobody listens any more is replaced.
    pub async fn take(address: &Address, tls: Option<&Tls>) -> io::Result<Self> {
        if tls.is_some_and(|tls| !tls.can_listen()) {
            let reason = "who listens with TLS needs a certificate and its key";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, reason));
        }
        Socket::bind(address).await.map(Place)
    }
}

impl Listener {
    /// Takes the [place](Place::take), and listens there at once.
    pub async fn bind(
        address: &Address,
        me: Introduction,
        handler: Arc<dyn Handler>,
        settings: Settings,
    ) -> io::Result<Self> {
        Self::listen(Place::take(address, settings.tls.as_ref()).await?, me, handler, settings)
    }

    /// Begins to listen, in the runtime in which the place was taken; its connections run in the [runtimes](Settings::runtimes).
    pub fn listen(
        Place(socket): Place,
        me: Introduction,
        handler: Arc<dyn Handler>,
        settings: Settings,
    ) -> io::Result<Self> {
        let address = socket.address()?;
        let (closing, renamed) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let me = Arc::new(Mutex::new(me));
        let (running, links) = (JoinSet::new(), HashMap::new());
        let accepting = Accepting { me: me.clone(), handler, settings, running, links };
        let task = Task::spawn(accepting.accept(socket, closing.clone(), renamed.clone()));
        Ok(Listener { address, me, closing, renamed, task })
    }

    /// Where it listens, with the port that the system chose.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// Says from now on that it is somebody else: a newcomer that has got its number. The connections that there are end, after what was
    /// handed in to them is sent: whoever dials again hears the new name.
    pub fn introduce(&self, me: Introduction) {
        *self.me.lock() = me;
        self.renamed.notify_one();
    }

    /// Listens no longer, and ends the connections that there are after what was handed in to them is sent, each as long as anything of
    /// that or of what the other end sends moves. Who does not wait for that ends them at once.
    pub async fn close(self) {
        self.closing.notify_one();
        self.task.ended().await;
    }
}

impl Accepting {
    async fn accept(mut self, socket: Socket, closing: Arc<Notify>, renamed: Arc<Notify>) {
        let connections_max = self.settings.connections_max;
        loop {
            tokio::select! {
                stream = socket.accept() => match stream {
                    // Those who are being told that there is no room take some, too.
                    Ok(_) if self.running.len() >= connections_max.saturating_mul(2) => {}
                    Ok(stream) => {
                        let refusal = self.running.len() >= connections_max;
                        self.serve(stream, refusal.then_some(Refusal::TooManyConnections));
                    }
                    // Too many open files, for instance: that passes, and to try again at once would not help.
                    Err(error) => {
                        self.handler.unaccepted(&error);
                        sleep(self.settings.wait_min).await;
                    }
                },
                Some(ended) = self.running.join_next_with_id() => self.forget(&ended),
                () = renamed.notified() => self.links.values().for_each(Link::close),
                () = closing.notified() => break,
            }
        }
        self.links.values().for_each(Link::close);
        for stream in socket.close(connections_max) {
            self.serve(stream, Some(Refusal::Stopping));
        }
        while let Some(ended) = self.running.join_next_with_id().await {
            self.forget(&ended);
        }
    }

    fn serve(&mut self, accepted: Accepted, refusal: Option<Refusal>) {
        let link = Link::new(&self.settings);
        accepted.remote().into_iter().for_each(|remote| link.set_remote(remote));
        let mut connection = Connection::listen(self.me.lock().clone());
        if let Some(refusal) = refusal {
            connection.refuse(refusal);
        } else if self.settings.porter.is_some() {
            match random() {
                Ok(nonce) => connection.demand_proof(nonce),
                // Nobody is let in without.
                Err(_) => drop(connection.refuse(Refusal::Stopping)),
            }
        }
        let attempt = Attempt::of_listener(link.clone(), self.handler.clone());
        let settings = self.settings.clone();
        let task = async move {
            // Who listens without a certificate was refused before.
            let stream = accepted.settle().and_then(|stream| stream.listen(settings.tls.as_ref()));
            match stream {
                Ok(stream) => Running::new(stream, connection, attempt, settings).run().await,
                Err(error) => {
                    attempt.end(End::Lost(error));
                    false
                }
            }
        };
        let runtime = self.settings.runtimes.next();
        self.links.insert(self.running.spawn_on(task, &runtime).id(), link);
    }

    fn forget(&mut self, ended: &Result<(Id, bool), JoinError>) {
        let id = match ended {
            Ok((id, _)) => *id,
            Err(error) => error.id(),
        };
        self.links.remove(&id);
    }
}

impl Socket {
    async fn bind(address: &Address) -> io::Result<Self> {
        match address {
            Address::Tcp(host) => Ok(Socket::Tcp(TcpListener::bind(host).await?)),
            Address::Unix(path) => {
                let listener = bind_unix(path)?;
                Ok(Socket::Unix(Entry(path.clone()), listener))
            }
        }
    }

    fn address(&self) -> io::Result<Address> {
        Ok(match self {
            Socket::Tcp(listener) => Address::Tcp(listener.local_addr()?.to_string()),
            Socket::Unix(entry, _) => Address::Unix(entry.0.clone()),
        })
    }

    async fn accept(&self) -> io::Result<Accepted> {
        Ok(match self {
            Socket::Tcp(listener) => Accepted::Tcp(listener.accept().await?.0.into_std()?),
            Socket::Unix(_, listener) => Accepted::Unix(listener.accept().await?.0.into_std()?),
        })
    }

    /// Listens no longer. Returns some of those who have dialed already and were not accepted.
    fn close(self, count_max: usize) -> Vec<Accepted> {
        match self {
            Socket::Tcp(listener) => {
                let Ok(listener) = listener.into_std() else { return Vec::new() };
                let accept = || Some(Accepted::Tcp(listener.accept().ok()?.0));
                iter::from_fn(accept).take(count_max).collect()
            }
            Socket::Unix(entry, listener) => {
                drop(entry);
                let Ok(listener) = listener.into_std() else { return Vec::new() };
                let accept = || Some(Accepted::Unix(listener.accept().ok()?.0));
                iter::from_fn(accept).take(count_max).collect()
            }
        }
    }
}

/// The entry of a socket in the file system. It goes before the socket does: another process that finds nobody there may replace it.
#[derive(Debug)]
struct Entry(PathBuf);

impl Drop for Entry {
    fn drop(&mut self) {
        // Who listens there next replaces it anyway.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// Listens at a path. A process that died leaves a socket behind at which nobody listens: that one is in nobody's way.
pub(crate) fn bind_unix(path: &Path) -> io::Result<UnixListener> {
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
