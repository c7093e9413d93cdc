// `ctx.files`: the tool's own files.
"use strict";

((parts) => {
  const { ops, promised, request, check } = parts;
  const { ArrayBufferIsView, ArrayBufferPrototype, JSONParse, ObjectFreeze, ObjectPrototypeIsPrototypeOf, TypeError, TypedArrayPrototypeGetBuffer,
    TypedArrayPrototypeGetByteLength, TypedArrayPrototypeGetByteOffset, TypedArrayPrototypeGetSymbolToStringTag,
    DataViewPrototypeGetBuffer, DataViewPrototypeGetByteLength, DataViewPrototypeGetByteOffset, Uint8Array } = parts.primordials;

  /** Returns the bytes of an ArrayBuffer or a view, or undefined for anything else. */
  function bytesOf(value) {
    if (ArrayBufferIsView(value)) {
      if (TypedArrayPrototypeGetSymbolToStringTag(value) !== undefined) {
        return new Uint8Array(
          TypedArrayPrototypeGetBuffer(value), TypedArrayPrototypeGetByteOffset(value), TypedArrayPrototypeGetByteLength(value));
      }
      return new Uint8Array(DataViewPrototypeGetBuffer(value), DataViewPrototypeGetByteOffset(value), DataViewPrototypeGetByteLength(value));
    }
    if (value !== null && typeof value === "object" && ObjectPrototypeIsPrototypeOf(ArrayBufferPrototype, value)) return new Uint8Array(value);
    return undefined;
  }

  const orNull = (value) => (value === undefined ? null : value);
  const textOrNull = (bytes) => (bytes === undefined ? null : ops.op_text_decode(bytes, false));

  const filesOf = (call) => {
    /** Reads a file. `convert` turns its bytes into the handler's value. */
    const read = (path, others, what, convert) =>
      request(call, () => {
        check.noExtraArguments(others, what, 1);
        return promised(ops.op_file_read(check.name(path, "path")), convert);
      });
    return {
      /** Returns the bytes of a file, or null. */
      read(path, ...others) {
        return read(path, others, "ctx.files.read", orNull);
      },
      readText(path, ...others) {
        return read(path, others, "ctx.files.readText", textOrNull);
      },
      readJson(path, ...others) {
        return read(path, others, "ctx.files.readJson", (bytes) => (bytes === undefined ? null : JSONParse(textOrNull(bytes))));
      },
      /** Writes `content`: a string, bytes, or a JSON value. */
      write(path, content, ...others) {
        return request(call, () => {
          check.noExtraArguments(others, "ctx.files.write", 2);
          check.name(path, "path");
          if (typeof content === "string") return promised(ops.op_file_write_text(path, content));
          const bytes = bytesOf(content);
          if (bytes !== undefined) return promised(ops.op_file_write(path, bytes));
          if (content === undefined) throw new TypeError("content must be a string, bytes or a JSON value");
          return promised(ops.op_file_write_text(path, check.json(content, "content")));
        });
      },
      delete(path, ...others) {
        return request(call, () => {
          check.noExtraArguments(others, "ctx.files.delete", 1);
          return promised(ops.op_file_delete(check.name(path, "path")));
        });
      },
      list(options, ...others) {
        return request(call, () => {
          const { prefix, limit, cursor } = check.listOptions(options, others, "ctx.files.list");
          return promised(ops.op_file_list(prefix, limit, cursor));
        });
      },
    };
  };

  parts.bytesOf = bytesOf;
  parts.defineMember("files", (call) => ObjectFreeze(filesOf(call)));
})(globalThis.__tollhouse);
