// Node's `tty`: tools have no terminal.
const { absent } = require("./absent.cjs");
module.exports = { isatty: () => false, ReadStream: absent("tty.ReadStream", "tools have no terminal"), WriteStream: absent("tty.WriteStream", "tools have no terminal") };
