// Node's `zlib`: the package `browserify-zlib`. It has no Brotli and no zstd.
const zlib = require("browserify-zlib");

const crc = Uint32Array.from({ length: 256 }, (_, byte) => {
  for (let bit = 0; bit < 8; bit++) byte = byte & 1 ? (byte >>> 1) ^ 0xedb88320 : byte >>> 1;
  return byte;
});
const constants = Object.fromEntries(Object.entries(zlib).filter(([name]) => name.startsWith("Z_")));
module.exports = {
  ...zlib,
  constants,
  crc32: (data, value = 0) => {
    value = ~value;
    for (const byte of typeof data === "string" ? new TextEncoder().encode(data) : data) value = crc[(value ^ byte) & 255] ^ (value >>> 8);
    return ~value >>> 0;
  },
};
