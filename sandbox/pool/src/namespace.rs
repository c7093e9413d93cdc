//! PID namespaces for workers that start without a zygote. A forked worker gets its own from its
//! [zygote](crate::zygote).

use std::{fs::File, io, os::fd::AsFd};

use rustix::thread::{LinkNameSpaceType, UnshareFlags, move_into_link_name_space};

/// The PID namespace of this process. Creating others needs `CAP_SYS_ADMIN`.
#[derive(Debug)]
pub(crate) struct PidNamespace(File);

impl PidNamespace {
    /// Opens the namespace of this process.
    ///
    /// # Errors
    ///
    /// The error of the system, if a thread that has switched namespaces could not switch back.
    pub(crate) fn own() -> io::Result<Self> {
        let own = Self(File::open("/proc/self/ns/pid")?);
        own.rejoin()?;
        Ok(own)
    }

    /// Calls `start` so that the process it starts is the first in a new namespace. If the system
    /// refuses that, the process stays in the current namespace. Afterwards this thread starts
    /// processes in its own namespace again.
    ///
    /// # Errors
    ///
    /// Those of `start`, and the system's error if switching back fails.
    pub(crate) fn outside<T>(&self, start: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        let unshared = begin();
        let started = start();
        if unshared.is_ok() {
            self.rejoin()?;
        }
        started
    }

    fn rejoin(&self) -> io::Result<()> {
        Ok(move_into_link_name_space(self.0.as_fd(), Some(LinkNameSpaceType::ProcessID))?)
    }
}

#[expect(deprecated, reason = "its replacement is unsafe because of a flag that is not used here")]
fn begin() -> io::Result<()> {
    Ok(rustix::thread::unshare(UnshareFlags::NEWPID)?)
}

#[cfg(test)]
mod tests {
    use std::{
        fs,
        io::Write as _,
        path::PathBuf,
        process::{Child, Command, Stdio},
    };

    use super::*;

    fn namespace_of(pid: u32) -> PathBuf {
        fs::read_link(format!("/proc/{pid}/ns/pid")).unwrap()
    }

    #[test]
    fn each_process_has_its_own_namespace_where_the_system_allows_it() {
        let Ok(own) = PidNamespace::own() else {
            writeln!(io::stdout(), "skipped: PID namespaces: this system allows none").unwrap();
            return;
        };
        // The child ends with this process at the latest.
        let start = || Command::new("/bin/cat").stdin(Stdio::piped()).spawn();
        let mut started = [own.outside(start).unwrap(), own.outside(start).unwrap(), start().unwrap()];
        assert!(own.outside::<Child>(|| Err(io::ErrorKind::NotFound.into())).is_err());
        let after = start().unwrap();
        let [first, second, here] = [0, 1, 2].map(|index: usize| namespace_of(started[index].id()));
        let this = namespace_of(std::process::id());
        assert!(first != second && first != this && second != this);
        assert_eq!([here, namespace_of(after.id())], [this.clone(), this]);
        for child in started.iter_mut().chain([&mut { after }]) {
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }
}
