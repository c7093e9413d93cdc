// Node's `http` and `https`: they load, and their requests throw. `fetch` is what tools have.
const EventEmitter = require("events");
const { absent } = require("./absent.cjs");

class Agent extends EventEmitter {
  constructor(options = {}) {
    super();
    this.options = options;
    this.sockets = this.freeSockets = this.requests = {};
  }
  destroy() {}
}
module.exports = {
  Agent,
  globalAgent: new Agent(),
  METHODS: ["CONNECT", "DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "TRACE"],
  STATUS_CODES: {
    200: "OK", 201: "Created", 202: "Accepted", 204: "No Content", 206: "Partial Content", 301: "Moved Permanently", 302: "Found", 303: "See Other",
    304: "Not Modified", 307: "Temporary Redirect", 308: "Permanent Redirect", 400: "Bad Request", 401: "Unauthorized", 402: "Payment Required",
    403: "Forbidden", 404: "Not Found", 405: "Method Not Allowed", 406: "Not Acceptable", 408: "Request Timeout", 409: "Conflict", 410: "Gone",
    411: "Length Required", 412: "Precondition Failed", 413: "Payload Too Large", 414: "URI Too Long", 415: "Unsupported Media Type",
    416: "Range Not Satisfiable", 418: "I'm a Teapot", 422: "Unprocessable Entity", 425: "Too Early", 426: "Upgrade Required", 428: "Precondition Required",
    429: "Too Many Requests", 431: "Request Header Fields Too Large", 451: "Unavailable For Legal Reasons", 500: "Internal Server Error",
    501: "Not Implemented", 502: "Bad Gateway", 503: "Service Unavailable", 504: "Gateway Timeout", 505: "HTTP Version Not Supported",
  },
};
for (const name of ["request", "get", "createServer", "ClientRequest", "IncomingMessage", "OutgoingMessage", "Server", "ServerResponse"]) {
  module.exports[name] = absent(`http.${name}`, "use fetch");
}
