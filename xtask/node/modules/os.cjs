// Node's `os`, with fixed values: a tool learns nothing of its machine.
const errno = { E2BIG: 7, EACCES: 13, EADDRINUSE: 98, EAGAIN: 11, EBADF: 9, EBUSY: 16, ECANCELED: 125, ECONNABORTED: 103, ECONNREFUSED: 111, ECONNRESET: 104, EEXIST: 17, EINVAL: 22, EIO: 5, EISDIR: 21, EMFILE: 24, ENOENT: 2, ENOMEM: 12, ENOSPC: 28, ENOSYS: 38, ENOTDIR: 20, ENOTEMPTY: 39, EPERM: 1, EPIPE: 32, ETIMEDOUT: 110 };
const signals = { SIGHUP: 1, SIGINT: 2, SIGQUIT: 3, SIGABRT: 6, SIGKILL: 9, SIGPIPE: 13, SIGALRM: 14, SIGTERM: 15 };
module.exports = {
  EOL: "\n",
  devNull: "/dev/null",
  constants: { errno, signals, priority: {}, dlopen: {} },
  arch: () => "x64",
  availableParallelism: () => 1,
  cpus: () => [],
  endianness: () => "LE",
  freemem: () => 0,
  homedir: () => "/",
  hostname: () => "localhost",
  loadavg: () => [0, 0, 0],
  machine: () => "x86_64",
  networkInterfaces: () => ({}),
  platform: () => "linux",
  release: () => "",
  tmpdir: () => "/tmp",
  totalmem: () => 0,
  type: () => "Linux",
  uptime: () => 0,
  userInfo: () => ({ uid: -1, gid: -1, username: "", homedir: "/", shell: null }),
  version: () => "",
};
