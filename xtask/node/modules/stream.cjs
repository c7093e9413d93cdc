// Node's `stream`: the package `readable-stream`, which is made from it.
module.exports = require("readable-stream/lib/ours/browser.js");
