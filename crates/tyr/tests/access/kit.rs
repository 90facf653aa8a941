//! A cluster of one guarded node, and clients of it, well behaved and not.

use std::{
    fs,
    io::{self, Read, Write},
    net::TcpStream,
    os::unix::fs::PermissionsExt,
    path::Path,
    sync::{
        Arc, Mutex, OnceLock,
        mpsc::{Receiver, RecvTimeoutError, Sender, channel},
    },
    time::Duration,
};

use tempfile::TempDir;
use tyr_client::blocking::Store;
use tyr_net::{
    Address, Credential, Dialer, End, Handler, Link, Received, Secret,
    channels::{DATA, MANAGER},
};
use tyr_proto::{
    ClassId, PartitionId,
    access::{AccountKind, Rights},
    cluster::{Request, Response},
    encoding::{append_to, from_bytes},
    message::{Answer, Envelope, Message},
};
use tyr_server::{
    AccountId, Answer as Reply, ClassSettings, ClusterCommand, Difference, Fact, Guarding, Operator, Scope,
    Server, Settings, Timing, Tls, Token,
};
use tyr_types::{Error, KeyspaceId};
use tyr_wire::connection::{self, Frame, Introduction, Kind, Party, Peer, Refusal};

/// What the node shares with others.
pub const SECRET: &[u8] = b"the secret of this cluster 4711";
/// As many partitions it has.
pub const PARTITIONS: u32 = 4;
const PATIENCE: Duration = Duration::from_secs(60);

/// A node that lets in nobody without a token.
pub struct Cluster {
    pub server: Server,
    directory: TempDir,
    tls: Option<Tls>,
}

/// How such a node is started.
pub fn settings(directory: &Path, guarding: Guarding) -> Settings {
    log();
    let mut settings = Settings::new(directory);
    settings.class = ClassSettings { partitions: PARTITIONS, min_replicas: 1, ..ClassSettings::new(1) };
    settings.store.segment_size = 8 << 20;
    settings.timing = Timing::near();
    settings.guarding = guarding;
    settings.http = Some("127.0.0.1:0".into());
    settings
}

fn secret() -> Secret {
    Secret::new(SECRET).unwrap()
}

/// What all servers of this process have logged.
pub fn logged() -> String {
    String::from_utf8_lossy(&log().lock().unwrap()).into_owned()
}

fn log() -> &'static Arc<Mutex<Vec<u8>>> {
    static LOG: OnceLock<Arc<Mutex<Vec<u8>>>> = OnceLock::new();
    LOG.get_or_init(|| {
        let log = Arc::<Mutex<Vec<u8>>>::default();
        let writer = log.clone();
        let writer = move || Pen(writer.clone());
        let builder = tracing_subscriber::fmt().with_ansi(false).with_max_level(tracing::Level::TRACE);
        builder.with_writer(writer).init();
        log
    })
}

struct Pen(Arc<Mutex<Vec<u8>>>);

impl Write for Pen {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Opens the cluster as a client would.
pub fn open(address: &Address, credential: Credential) -> Result<Store, Error> {
    let options = Store::options();
    let options = match credential {
        Credential::Token(token) => options.token(token),
        Credential::Secret(secret) => options.secret(secret),
        Credential::None => options,
    };
    options.open(format!("tyr://{address}"))
}

/// The same, once the node has heard of what it takes.
pub fn opened(address: &Address, credential: Credential) -> Store {
    open(address, credential).unwrap()
}

/// Why a dialer is refused; none if it is not.
pub fn refusal(address: &Address, me: Introduction, credential: Credential) -> Option<Refusal> {
    let mut raw = Raw::new(address, me, credential);
    loop {
        match raw.next() {
            Came::Opened => return None,
            Came::Closed(Some(Refusal::Stopping)) => {}
            Came::Closed(refusal) => return refusal,
            Came::Answer(_) | Came::Response(_) => {}
        }
    }
}

impl Cluster {
    /// A node, with the keyspaces `events` and `secrets`; there is something in the latter.
    pub fn start() -> Cluster {
        Cluster::start_as(|_, _| {})
    }

    /// The same, set up otherwise in something.
    pub fn start_as(otherwise: impl FnOnce(&mut Settings, &Path)) -> Cluster {
        let directory = tempfile::tempdir().unwrap();
        // As it is where nobody has thought of it.
        fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let mut settings = settings(directory.path(), Guarding::Secret(secret()));
        otherwise(&mut settings, directory.path());
        let tls = settings.tls.clone();
        let server = Server::start(settings).unwrap();
        assert!(server.wait(PATIENCE, |status| status.is_ready));
        let cluster = Cluster { server, directory, tls };
        let store = match &cluster.tls {
            None => opened(&cluster.address(), cluster.operator_credential()),
            Some(tls) => {
                let options = Store::options().secret(secret()).tls(tls.clone());
                options.open(format!("tyr+tls://{}", cluster.address())).unwrap()
            }
        };
        for name in ["events", "secrets"] {
            store.create_keyspace(name, Default::default()).unwrap();
        }
        for number in 0..20 {
            store.keyspace("secrets").unwrap().put(format!("hidden-{number}"), b"secret").unwrap();
        }
        cluster
    }

    pub fn address(&self) -> Address {
        self.server.address().clone()
    }

    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    pub fn settings(&self) -> Settings {
        settings(self.directory(), Guarding::Secret(secret()))
    }

    pub fn operator_credential(&self) -> Credential {
        Credential::Secret(secret())
    }

    pub fn operator(&self) -> Operator {
        Operator::new(&[self.address()], self.tls.as_ref(), &self.operator_credential(), PATIENCE).unwrap()
    }

    pub fn facts(&self) -> Difference {
        self.operator().facts().unwrap()
    }

    /// How many members it has.
    pub fn members(&self) -> usize {
        self.facts().facts.iter().filter(|fact| matches!(fact, Fact::Member(..))).count()
    }

    pub fn command(&self, command: ClusterCommand) -> Reply {
        self.operator().command(command).unwrap().unwrap()
    }

    pub fn keyspace(&self, name: &str) -> KeyspaceId {
        let facts = self.facts().facts;
        let found = facts.iter().find_map(|fact| match fact {
            Fact::Keyspace(id, keyspace) if keyspace.name.as_str() == name => Some(*id),
            _ => None,
        });
        found.unwrap()
    }

    pub fn account(&self, name: &str) -> AccountId {
        let facts = self.facts().facts;
        let found = facts.iter().find_map(|fact| match fact {
            Fact::Account(id, account) if account.name.as_str() == name => Some(*id),
            _ => None,
        });
        found.unwrap()
    }

    fn create(&self, name: &str, kind: AccountKind, rights: &[(&str, Rights)]) -> AccountId {
        let created =
            self.command(ClusterCommand::CreateAccount { name: name.parse().unwrap(), kind, seed: 5 });
        let Reply::AccountCreated(account, _) = created else { panic!("{created:?}") };
        for (keyspace, more) in rights {
            let scope = Scope::Keyspace(self.keyspace(keyspace));
            self.command(ClusterCommand::Grant { account, scope, more: *more, less: Rights::NONE });
        }
        account
    }

    /// A user with these rights, and a token.
    pub fn user(&self, name: &str, rights: &[(&str, Rights)]) -> Token {
        self.create(name, AccountKind::User, rights);
        self.token(name, 3600, Vec::new())
    }

    /// A user who administers the cluster, and a token.
    pub fn user_of_cluster(&self, name: &str) -> Token {
        let account = self.create(name, AccountKind::User, &[]);
        let (scope, more) = (Scope::Cluster, Rights::ADMINISTER);
        self.command(ClusterCommand::Grant { account, scope, more, less: Rights::NONE });
        self.token(name, 3600, Vec::new())
    }

    /// Voids all tokens that a user has.
    pub fn revoke_tokens(&self, name: &str) {
        self.command(ClusterCommand::RevokeTokens { user: self.account(name), before: 1 });
    }

    pub fn group(&self, name: &str, rights: &[(&str, Rights)]) -> AccountId {
        self.create(name, AccountKind::Group, rights)
    }

    pub fn token(&self, user: &str, lifetime: u64, limits: Vec<(Scope, Rights)>) -> Token {
        self.operator().token(self.account(user), lifetime, limits).unwrap().unwrap()
    }

    /// What the node has written down, once that is what is waited for.
    pub fn audited(&self, is_there: impl Fn(&str) -> bool) -> String {
        loop {
            let files = tyr_server::audit_files(self.directory());
            let text: String = files.iter().map(|path| fs::read_to_string(path).unwrap()).collect();
            if is_there(&text) {
                return text;
            }
            std::thread::yield_now();
        }
    }

    pub fn metrics(&self) -> String {
        self.says("GET /metrics HTTP/1.1\r\n\r\n")
    }

    /// What the node says to a request by HTTP.
    pub fn says(&self, request: &str) -> String {
        let mut stream = TcpStream::connect(self.server.http_address().unwrap()).unwrap();
        stream.write_all(request.as_bytes()).unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        text
    }

    /// The name of a file that has payload of the blob `events/large`, as the node says to who may have it.
    pub fn large_file(&self) -> (u64, u64) {
        let mut raw = Raw::dial(&self.address(), 4711, self.operator_credential());
        let blob = tyr_proto::BlobName {
            keyspace: self.keyspace("events"),
            key: tyr_types::Key::new("large").unwrap(),
        };
        let chunk = tyr_proto::ChunkName { blob, index: 0 };
        for index in 0..PARTITIONS {
            let request = tyr_proto::message::RequestId { session: tyr_proto::SessionId(4711), number: 1 };
            let locate = Message::Locate { request, chunk: chunk.clone(), range: 0..1 << 20, at: None };
            if let Some(Answer::Located { stretches, .. }) =
                raw.tell_to(PartitionId { class: ClassId(0), index }, locate)
                && let Some(file) = stretches.iter().find_map(|stretch| match stretch {
                    tyr_proto::Stretch::Spot(spot) => Some((spot.file.journal, spot.file.number)),
                    _ => None,
                })
            {
                return file;
            }
        }
        panic!("nothing of it lies in a file");
    }

    pub fn block_on<T>(&self, future: impl Future<Output = T>) -> T {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(future)
    }
}

/// A client that says whatever the test wants.
pub struct Raw {
    dialer: Dialer,
    came: Receiver<Came>,
    asked: u64,
    /// Ends last.
    _runtime: tokio::runtime::Runtime,
}

pub enum Came {
    Opened,
    Closed(Option<Refusal>),
    Answer(Answer),
    Response(Response),
}

struct Ear(Sender<Came>);

impl Ear {
    fn tell(&self, came: Came) {
        // The test may have ended.
        let _unheard = self.0.send(came);
    }
}

impl Handler for Ear {
    fn opened(&self, _: &Link, _: &Peer) {
        self.tell(Came::Opened);
    }

    fn received(&self, _: &Link, frame: Received<'_>) {
        match (frame.header.channel, frame.header.kind) {
            (DATA, Kind::Message) => self.tell(Came::Answer(from_bytes(frame.body).unwrap())),
            (MANAGER, Kind::Reply) => self.tell(Came::Response(from_bytes(frame.body).unwrap())),
            other => panic!("nothing else comes to a client: {other:?}"),
        }
    }

    fn closed(&self, _: &Link, _: Option<&Peer>, end: &End) {
        self.tell(Came::Closed(match end {
            End::Failed(connection::Error::Refused(refusal)) => Some(refusal.clone()),
            _ => None,
        }));
    }
}

impl Raw {
    /// A client of a session that was let in.
    pub fn dial(address: &Address, session: u64, credential: Credential) -> Raw {
        let mut raw = Raw::new(address, Introduction::new(Party::Client { session }, None), credential);
        loop {
            match raw.next() {
                Came::Opened => return raw,
                Came::Closed(Some(Refusal::Stopping)) => {}
                Came::Closed(refusal) => panic!("it is not let in: {refusal:?}"),
                Came::Answer(_) | Came::Response(_) => {}
            }
        }
    }

    fn new(address: &Address, me: Introduction, credential: Credential) -> Raw {
        let mut runtime = tokio::runtime::Builder::new_multi_thread();
        let runtime = runtime.worker_threads(1).enable_all().build().unwrap();
        let (sender, came) = channel();
        let settings = tyr_net::Settings { credential, ..Default::default() };
        let dialer = {
            let _runtime = runtime.enter();
            Dialer::new(address.clone(), me, Arc::new(Ear(sender)), settings)
        };
        Raw { dialer, came, asked: 0, _runtime: runtime }
    }

    fn next(&mut self) -> Came {
        match self.came.recv_timeout(PATIENCE) {
            Ok(came) => came,
            Err(RecvTimeoutError::Timeout) => panic!("nothing comes"),
            Err(RecvTimeoutError::Disconnected) => panic!("the connection is gone"),
        }
    }

    /// Asks the cluster manager something; none if it is hung up on.
    pub fn ask(&mut self, request: &Request) -> Option<Response> {
        self.asked += 1;
        let frame = Frame::request(MANAGER, self.asked, |out| append_to(out, request)).unwrap();
        self.dialer.link().send(frame).ok()?;
        loop {
            match self.next() {
                Came::Response(Response::Elsewhere(_)) | Came::Answer(_) | Came::Opened => {}
                Came::Response(response) => return Some(response),
                Came::Closed(_) => return None,
            }
        }
    }

    /// Says something to a partition, and nobody waits for an answer.
    pub fn send(&mut self, message: Message) {
        self.send_to(PartitionId { class: ClassId(0), index: 0 }, message);
    }

    /// Says something as if it had been asked.
    pub fn reply(&mut self, response: &Response) {
        for number in 1..100 {
            let frame = Frame::reply(MANAGER, number, |out| append_to(out, response)).unwrap();
            self.dialer.link().send(frame).unwrap();
        }
    }

    fn send_to(&mut self, partition: PartitionId, message: Message) {
        let frame = Frame::message(DATA, |out| append_to(out, &Envelope { partition, message })).unwrap();
        self.dialer.link().send(frame).unwrap();
    }

    /// Says something to a partition, and hears the answer; none if it is hung up on.
    pub fn tell(&mut self, message: Message) -> Option<Answer> {
        self.tell_to(PartitionId { class: ClassId(0), index: 0 }, message)
    }

    /// The same.
    pub fn tell_to(&mut self, partition: PartitionId, message: Message) -> Option<Answer> {
        self.send_to(partition, message);
        loop {
            match self.next() {
                Came::Answer(answer) => return Some(answer),
                Came::Response(_) | Came::Opened => {}
                Came::Closed(_) => return None,
            }
        }
    }
}
