//! A name server on a loopback port, like one that a tool's builder may run.

use std::{
    collections::BTreeSet,
    net::{IpAddr, SocketAddr},
    sync::Arc,
};
use tollhouse_base::boxed;

use hickory_resolver::{
    config::{ConnectionConfig, NameServerConfig, ResolverOpts},
    proto::{
        op::{Message, OpCode, ResponseCode},
        rr::{Name, RData, Record, RecordType, rdata::CNAME},
    },
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, UdpSocket},
    sync::watch,
};

use crate::guard::{Dns, Lookup};

/// Answers queries: addresses of a kind for a name, with their TTL in seconds. `None` sends no answer.
type Zone = dyn Fn(&str, RecordType) -> Option<Vec<(IpAddr, u32)>> + Send + Sync;

/// The records of a server.
#[derive(Clone)]
struct Zoned {
    aliases: Arc<Aliases>,
    addresses: Arc<Zone>,
}

impl Zoned {
    fn without_aliases(addresses: Arc<Zone>) -> Self {
        Self { aliases: Arc::new(|_| None), addresses }
    }
}

/// A name server that counts queries.
pub struct NameServer {
    address: SocketAddr,
    /// The names queried, and the number of queries.
    requested: watch::Receiver<(BTreeSet<String>, usize)>,
    /// Whether it also answers over TCP.
    truncates: bool,
}

/// Returns the target of a name that is an alias.
type Aliases = dyn Fn(&str) -> Option<String> + Send + Sync;

type Asking = watch::Sender<(BTreeSet<String>, usize)>;

impl NameServer {
    /// Starts a server that answers from `zone`, which gets names without the dot at the end. No addresses means that
    /// the name does not exist.
    pub async fn start(zone: impl Fn(&str, RecordType) -> Option<Vec<(IpAddr, u32)>> + Send + Sync + 'static) -> Self {
        Self::answering(ResponseCode::NXDomain, Arc::new(zone)).await
    }

    /// Starts a server that fails every query with `reason`.
    #[boxed]
    pub async fn unable(reason: ResponseCode) -> Self {
        Self::answering(reason, Arc::new(|_, _| Some(Vec::new()))).await
    }

    /// Starts a server like [`start`](Self::start) that answers only over TCP: its UDP answers are truncated.
    pub async fn truncating(zone: impl Fn(&str, RecordType) -> Option<Vec<(IpAddr, u32)>> + Send + Sync + 'static) -> Self {
        let (tcp, socket) = loop {
            let tcp = TcpListener::bind("127.0.0.1:0").await.unwrap();
            if let Ok(socket) = UdpSocket::bind(tcp.local_addr().unwrap()).await {
                break (tcp, socket);
            }
        };
        let zone = Zoned::without_aliases(Arc::new(zone));
        let (asking, _) = watch::channel(Default::default());
        tokio::spawn(serve_tcp(tcp, zone.clone(), asking.clone()));
        Self::at(socket, ResponseCode::NXDomain, zone, asking, true)
    }

    async fn answering(without: ResponseCode, zone: Arc<Zone>) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        Self::at(socket, without, Zoned::without_aliases(zone), watch::channel(Default::default()).0, false)
    }

    fn at(socket: UdpSocket, without: ResponseCode, zone: Zoned, asking: Asking, truncates: bool) -> Self {
        let (address, request) = (socket.local_addr().unwrap(), asking.subscribe());
        tokio::spawn(serve(socket, without, zone, asking, truncates));
        Self { address, requested: request, truncates }
    }

    /// Returns a resolver that uses this server the way the host uses its own.
    pub fn lookup(&self) -> Arc<dyn Lookup> {
        Arc::new(Dns::new(self.settings()))
    }

    /// Starts a server that answers a query for an alias with only its target, and other queries like
    /// [`start`](Self::start).
    pub async fn aliasing(
        aliases: impl Fn(&str) -> Option<String> + Send + Sync + 'static,
        zone: impl Fn(&str, RecordType) -> Option<Vec<(IpAddr, u32)>> + Send + Sync + 'static,
    ) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let zone = Zoned { aliases: Arc::new(aliases), addresses: Arc::new(zone) };
        Self::at(socket, ResponseCode::NXDomain, zone, watch::channel(Default::default()).0, false)
    }

    /// Returns settings with this server only.
    pub fn settings(&self) -> impl Fn() -> (Vec<NameServerConfig>, ResolverOpts) + Send + Sync + use<> {
        let mut connection = ConnectionConfig::udp();
        connection.port = self.address.port();
        let mut connections = vec![connection];
        if self.truncates {
            let mut connection = ConnectionConfig::tcp();
            connection.port = self.address.port();
            connections.push(connection);
        }
        let server = NameServerConfig::new(self.address.ip(), true, connections);
        move || (vec![server.clone()], ResolverOpts::default())
    }

    /// Returns the number of different names queried that end with `end`.
    pub fn names(&self, end: &str) -> usize {
        self.requested.borrow().0.iter().filter(|name| name.ends_with(end)).count()
    }

    /// Returns the number of queries: one for each kind of address, and again if no answer came.
    pub fn questions(&self) -> usize {
        self.requested.borrow().1
    }

    /// Waits until `names` different names that end with `end` were queried.
    #[boxed]
    pub async fn was_asked(&self, names: usize, end: &str) {
        let mut request = self.requested.clone();
        request.wait_for(|(all, _)| all.iter().filter(|name| name.ends_with(end)).count() >= names).await.unwrap();
    }
}

async fn serve(socket: UdpSocket, without: ResponseCode, zone: Zoned, asking: Asking, truncates: bool) {
    let mut packet = [0; 4_096];
    while let Ok((length, from)) = socket.recv_from(&mut packet).await {
        let Some(mut answer) = answered(&packet[..length], without, &zone, &asking) else { continue };
        if truncates {
            answer.answers.clear();
            answer.metadata.truncation = true;
        }
        socket.send_to(&answer.to_vec().unwrap(), from).await.unwrap();
    }
}

async fn serve_tcp(listener: TcpListener, zone: Zoned, asking: Asking) {
    while let Ok((mut stream, _)) = listener.accept().await {
        let (zone, asking) = (zone.clone(), asking.clone());
        tokio::spawn(async move {
            while let Ok(length) = stream.read_u16().await {
                let mut question = vec![0; length.into()];
                stream.read_exact(&mut question).await.unwrap();
                let Some(answer) = answered(&question, ResponseCode::NXDomain, &zone, &asking) else { continue };
                let answer = answer.to_vec().unwrap();
                stream.write_u16(answer.len().try_into().unwrap()).await.unwrap();
                stream.write_all(&answer).await.unwrap();
            }
        });
    }
}

/// Answers a query, or returns `None` to send nothing.
fn answered(question: &[u8], without: ResponseCode, zone: &Zoned, asking: &Asking) -> Option<Message> {
    let question = Message::from_vec(question).unwrap();
    let query = question.queries[0].clone();
    let name = query.name().to_ascii().trim_end_matches('.').to_owned();
    let alias = (zone.aliases)(&name);
    let answers = if alias.is_some() { Some(Vec::new()) } else { (zone.addresses)(&name, query.query_type()) };
    asking.send_modify(|(names, questions)| {
        names.insert(name);
        *questions += 1;
    });
    let answers = answers?;
    let mut answer = Message::response(question.metadata.id, OpCode::Query);
    answer.add_query(query.clone());
    if let Some(alias) = alias {
        let alias = Name::from_ascii(format!("{alias}.")).unwrap();
        answer.add_answer(Record::from_rdata(query.name().clone(), 60, RData::CNAME(CNAME(alias))));
    } else if answers.is_empty() {
        answer.metadata.response_code = without;
    }
    for (address, ttl) in answers {
        let (kind, data) = match address {
            IpAddr::V4(address) => (RecordType::A, RData::A(address.into())),
            IpAddr::V6(address) => (RecordType::AAAA, RData::AAAA(address.into())),
        };
        if kind == query.query_type() {
            answer.add_answer(Record::from_rdata(query.name().clone(), ttl, data));
        }
    }
    Some(answer)
}
