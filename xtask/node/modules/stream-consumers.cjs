// Node's `stream/consumers`: https://nodejs.org/api/webstreams.html#utility-consumers
const { Buffer } = require("buffer");

async function buffer(stream) {
  const parts = [];
  for await (const part of stream) parts.push(typeof part === "string" ? Buffer.from(part) : Buffer.from(part.buffer ?? part, part.byteOffset, part.byteLength));
  return Buffer.concat(parts);
}
const text = async (stream) => new TextDecoder().decode(await buffer(stream));
module.exports = {
  buffer,
  text,
  json: async (stream) => JSON.parse(await text(stream)),
  arrayBuffer: async (stream) => (await buffer(stream)).slice().buffer,
  blob: async (stream) => new Blob([await buffer(stream)]),
};
