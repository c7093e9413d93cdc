//! The layers of a worker's jail.

use std::{fmt, io};

use serde::{
    Deserialize, Serialize,
    de::{
        IntoDeserializer,
        value::{Error, StrDeserializer},
    },
};

use crate::frame::bounded_list;

/// Maximum number of layers in a report.
pub(crate) const MAX_LAYERS: usize = JailLayer::ALL.len();

/// A layer of the worker's jail.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum JailLayer {
    /// No open descriptors except the socket and standard streams to `/dev/null`.
    Descriptors,
    /// The worker dies with the host.
    ParentDeathSignal,
    /// No core dumps, no files, no descriptors, no new processes.
    Rlimits,
    /// Programs that it could start gain no additional rights.
    NoNewPrivs,
    /// Not dumpable: other processes of the same user cannot read its memory.
    NotDumpable,
    /// If memory runs out, the kernel ends it before the host.
    OomScore,
    /// It runs as a user and a group that no other process has.
    OwnUser,
    /// It has no capabilities and cannot gain any.
    Capabilities,
    /// Its own user namespace without a mapping: it has no identity outside.
    UserNamespace,
    /// Its own mount namespace: it sees no mounts of others.
    MountNamespace,
    /// It has no network.
    NetNamespace,
    /// It sees no message queues or shared memory of others.
    IpcNamespace,
    /// It sees no other process and is the first of its PID namespace. Needs a host that can create
    /// one.
    PidNamespace,
    /// It sees no files.
    EmptyRoot,
    /// It cannot open files or TCP connections, or signal other processes.
    Landlock,
    /// It can make only the few system calls that it needs.
    Seccomp,
    /// Only its program is executable, from before its engine boots. Not available if the engine
    /// compiles code.
    NoExec,
    /// A control group limits its memory, and that of all workers together.
    MemoryMax,
    /// A control group limits its processes and threads, and those of all workers together.
    PidsMax,
    /// A control group reserves some processor time for the host.
    CpuMax,
}

impl JailLayer {
    /// All layers.
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

    /// The layers that the host applies to a worker from outside. The worker does not know about
    /// them.
    pub const OF_GROUPS: [Self; 3] = [Self::MemoryMax, Self::PidsMax, Self::CpuMax];

    /// Returns the layer with this JSON name.
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

/// Report of a worker's jail. A worker sends it before it runs a handler. The bytes of a worker are
/// hostile input all the same.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JailReport {
    /// Layers in force, in the order in which they took effect.
    #[serde(deserialize_with = "bounded_list::<_, _, MAX_LAYERS>")]
    pub in_force: Vec<JailLayer>,
    /// The other layers.
    #[serde(deserialize_with = "bounded_list::<_, _, MAX_LAYERS>")]
    pub refused: Vec<LayerRefusal>,
}

/// A layer that the system refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LayerRefusal {
    /// The layer that is missing.
    pub layer: JailLayer,
    /// The error number of the system, errno(3).
    pub errno: i32,
}

impl fmt::Display for LayerRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.layer, io::Error::from_raw_os_error(self.errno))
    }
}
