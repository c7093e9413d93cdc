//! A name server on a loopback port, as one that a tool's builder has.

use std::{
    collections::BTreeSet,
    net::{IpAddr, SocketAddr},
    sync::Arc,
};

use hickory_resolver::{
    config::{ConnectionConfig, NameServerConfig, ResolverOpts},
    proto::{
        op::{Message, OpCode, ResponseCode},
        rr::{RData, Record, RecordType},
    },
};
use tokio::{net::UdpSocket, sync::watch};

use crate::capability::guard::{Dns, Lookup};

/// What a server says of a name when asked for addresses of a kind, with their TTL in seconds; `None` is nothing at all.
type Zone = dyn Fn(&str, RecordType) -> Option<Vec<(IpAddr, u32)>> + Send + Sync;

/// A server that counts what it is asked.
pub(crate) struct NameServer {
    address: SocketAddr,
    /// The names that it was asked for, and how many questions there were.
    asked: watch::Receiver<(BTreeSet<String>, usize)>,
}

impl NameServer {
    /// Answers as `zone` says, without the dot at a name's end. No addresses: the name does not exist.
    pub(crate) async fn start(zone: impl Fn(&str, RecordType) -> Option<Vec<(IpAddr, u32)>> + Send + Sync + 'static) -> Self {
        Self::answering(ResponseCode::NXDomain, Arc::new(zone)).await
    }

    /// Knows of no name whether it exists, for a reason.
    pub(crate) async fn unable(reason: ResponseCode) -> Self {
        Self::answering(reason, Arc::new(|_, _| Some(Vec::new()))).await
    }

    async fn answering(without: ResponseCode, zone: Arc<Zone>) -> Self {
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let address = socket.local_addr().unwrap();
        let (asking, asked) = watch::channel(Default::default());
        tokio::spawn(serve(socket, without, zone, asking));
        Self { address, asked }
    }

    /// Asks this one as the host asks its own.
    pub(crate) fn lookup(&self) -> Arc<dyn Lookup> {
        Arc::new(Dns::new(self.settings()))
    }

    /// Of whom to ask this one alone.
    pub(crate) fn settings(&self) -> impl Fn() -> (Vec<NameServerConfig>, ResolverOpts) + Send + Sync + use<> {
        let mut connection = ConnectionConfig::udp();
        connection.port = self.address.port();
        let server = NameServerConfig::new(self.address.ip(), true, vec![connection]);
        move || (vec![server.clone()], ResolverOpts::default())
    }

    /// How many different names that end like this it was asked for.
    pub(crate) fn names(&self, end: &str) -> usize {
        self.asked.borrow().0.iter().filter(|name| name.ends_with(end)).count()
    }

    /// How many questions it got: one for each kind of address, and again where no answer came.
    pub(crate) fn questions(&self) -> usize {
        self.asked.borrow().1
    }

    /// Waits until it was asked for so many names that end like this.
    pub(crate) async fn was_asked(&self, names: usize, end: &str) {
        let mut asked = self.asked.clone();
        asked.wait_for(|(all, _)| all.iter().filter(|name| name.ends_with(end)).count() >= names).await.unwrap();
    }
}

async fn serve(socket: UdpSocket, without: ResponseCode, zone: Arc<Zone>, asking: watch::Sender<(BTreeSet<String>, usize)>) {
    let mut packet = [0; 4_096];
    while let Ok((length, from)) = socket.recv_from(&mut packet).await {
        let question = Message::from_vec(&packet[..length]).unwrap();
        let query = question.queries[0].clone();
        let name = query.name().to_ascii().trim_end_matches('.').to_owned();
        let answers = zone(&name, query.query_type());
        asking.send_modify(|(names, questions)| {
            names.insert(name);
            *questions += 1;
        });
        let Some(answers) = answers else { continue };
        let mut answer = Message::response(question.metadata.id, OpCode::Query);
        answer.add_query(query.clone());
        if answers.is_empty() {
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
        socket.send_to(&answer.to_vec().unwrap(), from).await.unwrap();
    }
}
