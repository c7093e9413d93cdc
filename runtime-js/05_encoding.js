// atob and btoa.
"use strict";

((parts) => {
  const { DOMException, defineOperation, domString, ops } = parts;
  const { RegExpPrototypeExec, SafeRegExp, StringPrototypeCharCodeAt, Uint8Array } = parts.primordials;

  const WIDE = new SafeRegExp(/[^\x00-\xff]/);

  function btoa(data) {
    const text = domString(data);
    if (RegExpPrototypeExec(WIDE, text) !== null) {
      throw new DOMException("a character is outside of Latin1", "InvalidCharacterError");
    }
    const bytes = new Uint8Array(text.length);
    for (let i = 0; i < text.length; i++) bytes[i] = StringPrototypeCharCodeAt(text, i);
    return ops.op_base64_encode(bytes);
  }

  function atob(data) {
    const text = ops.op_base64_decode(domString(data));
    if (text === undefined || text === null) throw new DOMException("the text is not base64", "InvalidCharacterError");
    return text;
  }

  defineOperation(atob);
  defineOperation(btoa);
})(globalThis.__tollhouse);
