//! The layers of a worker's jail.

use std::{fmt, io};

use serde::{
    Deserialize, Serialize,
    de::{
        IntoDeserializer,
        value::{Error, StrDeserializer},
    },
};

use crate::frame::few;

/// Layers that a worker reports.
pub(crate) const MAX_LAYERS: usize = JailLayer::ALL.len();

/// A layer of the worker's jail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JailLayer {
    /// No descriptor but the socket and standard streams to `/dev/null`.
    Descriptors,
    /// The worker dies with the host.
    ParentDeathSignal,
    /// No core dumps, no files, no descriptors, no new processes.
    Rlimits,
    /// No program that it could start has more rights than it.
    NoNewPrivs,
    /// Not dumpable: no other process of the same user may read its memory.
    NotDumpable,
    /// Where memory runs out it is ended before the host.
    OomScore,
    /// It runs as a user and a group that no other process has.
    OwnUser,
    /// It has no capability, and can come by none.
    Capabilities,
    /// Whatever it is among its own, it is nobody outside.
    UserNamespace,
    /// It sees no mounts but its own.
    MountNamespace,
    /// It has no network.
    NetNamespace,
    /// It sees no queues or shared memory of others.
    IpcNamespace,
    /// It sees no process but itself, the first of its namespace: where the host may make one.
    PidNamespace,
    /// There is no file to be seen.
    EmptyRoot,
    /// It opens no files and no TCP connections, and signals nobody.
    Landlock,
    /// It makes no system calls but a few.
    Seccomp,
    /// It has no code but its program's, from before its engine boots. Not where the engine is to compile.
    NoExec,
    /// A control group bounds its memory, and that of all workers together.
    MemoryMax,
    /// A control group bounds its processes and threads, and those of all workers together.
    PidsMax,
    /// A control group leaves the host some of the processor, whatever all workers want together.
    CpuMax,
}

impl JailLayer {
    /// All there are.
    pub const ALL: [Self; 20] = [
        Self::Descriptors,
        Self::ParentDeathSignal,
        Self::Rlimits,
        Self::NoNewPrivs,
        Self::NotDumpable,
        Self::OomScore,
        Self::OwnUser,
        Self::Capabilities,
        Self::UserNamespace,
        Self::MountNamespace,
        Self::NetNamespace,
        Self::IpcNamespace,
        Self::PidNamespace,
        Self::EmptyRoot,
        Self::Landlock,
        Self::Seccomp,
        Self::NoExec,
        Self::MemoryMax,
        Self::PidsMax,
        Self::CpuMax,
    ];

    /// Those that the host puts around a worker, which knows nothing of them.
    pub const OF_GROUPS: [Self; 3] = [Self::MemoryMax, Self::PidsMax, Self::CpuMax];

    /// The layer of a name, as it is told in JSON.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        let name: StrDeserializer<'_, Error> = name.into_deserializer();
        Self::deserialize(name).ok()
    }
}

impl fmt::Display for JailLayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.serialize(f)
    }
}

/// What became of a worker's jail. Hostile input once a handler runs, and told before one does.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JailReport {
    /// In the order in which they came into force.
    #[serde(deserialize_with = "few::<_, _, MAX_LAYERS>")]
    pub in_force: Vec<JailLayer>,
    /// The others.
    #[serde(deserialize_with = "few::<_, _, MAX_LAYERS>")]
    pub refused: Vec<Refused>,
}

/// A layer that the system refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Refused {
    /// Which.
    pub layer: JailLayer,
    /// The system's error number, errno(3).
    pub errno: i32,
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.layer, io::Error::from_raw_os_error(self.errno))
    }
}
