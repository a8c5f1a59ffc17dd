import { frame } from "./socket-frames.ts";

/** What a raw client sends after its handshake: pieces, one after the other; `ends`: it then ends its side. */
export type SocketCase = {
  readonly name: string;
  readonly pieces: readonly Buffer[];
  readonly ends?: boolean;
};

const text = (value: string): Buffer => Buffer.from(value);
const closing = (payload: Buffer): Buffer => frame({ opcode: 8, payload });
const withCode = (code: number, reason = ""): Buffer => {
  const payload = Buffer.alloc(2 + Buffer.byteLength(reason));
  payload.writeUInt16BE(code);
  payload.write(reason, 2);
  return closing(payload);
};

function* cases(): Generator<SocketCase> {
  for (let opcode = 0; opcode < 16; opcode++) {
    for (const isFinal of [true, false]) {
      for (const reserved of [0, 1, 2, 4])
        yield {
          name: `opcode ${opcode}, ${isFinal ? "final" : "not final"}, reserved ${reserved}`,
          pieces: [frame({ opcode, isFinal, reserved, payload: text("ab") })],
        };
      yield {
        name: `opcode ${opcode}, ${isFinal ? "final" : "not final"}, without a mask`,
        pieces: [frame({ opcode, isFinal, mask: null, payload: text("ab") })],
      };
    }
  }
  for (const lengthBytes of [2, 8] as const) {
    for (const size of [0, 1, 125])
      yield {
        name: `a length of ${size} in ${lengthBytes} bytes`,
        pieces: [frame({ lengthBytes, payload: Buffer.alloc(size, "x") })],
      };
  }
  for (const size of [0, 1, 125, 126, 127, 65_535, 65_536, 200_000])
    yield { name: `${size} bytes`, pieces: [frame({ opcode: 2, payload: Buffer.alloc(size, 7) })] };
  for (const length of [2n ** 31n, 2n ** 53n, 2n ** 63n, 2n ** 64n - 1n])
    yield {
      name: `a length of ${length}`,
      pieces: [frame({ opcode: 2, length, lengthBytes: 8 })],
      ends: true,
    };
  for (const opcode of [8, 9, 10])
    for (const size of [0, 2, 125, 126, 200])
      yield {
        name: `control frame ${opcode} of ${size} bytes`,
        pieces: [frame({ opcode, payload: Buffer.alloc(size, 3) })],
      };
  for (const code of [
    0, 1, 999, 1000, 1001, 1002, 1003, 1004, 1005, 1006, 1007, 1010, 1011, 1012, 1015, 1016, 2999, 3000, 4999,
    5000, 65_535,
  ])
    yield { name: `close with code ${code}`, pieces: [withCode(code, "why")] };
  yield { name: "close without a code", pieces: [closing(Buffer.alloc(0))] };
  yield { name: "close with half a code", pieces: [closing(Buffer.from([3]))] };
  yield { name: "close with bad UTF-8", pieces: [closing(Buffer.from([3, 232, 0xff, 0xfe]))] };
  yield { name: "a message after a close", pieces: [withCode(1000), frame()] };
  yield { name: "two closes", pieces: [withCode(1000), withCode(1001)] };
  for (const bad of ["c0af", "eda080", "f4908080", "ff", "e282"])
    yield { name: `text that is no UTF-8: ${bad}`, pieces: [frame({ payload: Buffer.from(bad, "hex") })] };
  const first = frame({ isFinal: false, payload: text("one ") });
  const middle = frame({ opcode: 0, isFinal: false, payload: text("two ") });
  const last = frame({ opcode: 0, payload: text("three") });
  yield { name: "three fragments", pieces: [first, middle, last] };
  yield { name: "three fragments in one piece", pieces: [Buffer.concat([first, middle, last])] };
  for (const opcode of [9, 10])
    yield {
      name: `a control frame ${opcode} among fragments`,
      pieces: [first, frame({ opcode, payload: text("p") }), last],
    };
  yield { name: "a close among fragments", pieces: [first, withCode(1000)] };
  yield { name: "a message among fragments", pieces: [first, frame(), last] };
  yield { name: "a fragment without a beginning", pieces: [last] };
  yield {
    name: "empty fragments",
    pieces: [frame({ isFinal: false, payload: text("") }), frame({ opcode: 0, payload: text("") })],
  };
  yield {
    name: "many messages in one piece",
    pieces: [Buffer.concat(Array.from({ length: 50 }, () => frame()))],
  };
  yield {
    name: "many pings",
    pieces: Array.from({ length: 20 }, (_, n) => frame({ opcode: 9, payload: text(`${n}`) })),
  };
  const message = Buffer.concat([
    frame({ payload: text("cut anywhere") }),
    frame({ opcode: 9, payload: text("p") }),
    withCode(1000),
  ]);
  for (let cut = 1; cut < message.length; cut++)
    yield { name: `cut after ${cut} bytes`, pieces: [message.subarray(0, cut), message.subarray(cut)] };
  yield { name: "a byte at a time", pieces: Array.from(message, (byte) => Buffer.from([byte])) };
  for (const size of [0, 1, 2, 5, 8])
    yield {
      name: `ends after ${size} bytes`,
      pieces: size === 0 ? [] : [frame().subarray(0, size)],
      ends: true,
    };
  yield { name: "ends after a message", pieces: [frame()], ends: true };
  yield { name: "ends after a close", pieces: [withCode(1000)], ends: true };
  yield { name: "something that is no frame", pieces: [text("GET / HTTP/1.1\r\n\r\n")] };
}

/** Ways to use a WebSocket, right and wrong. */
export const SOCKET_CASES: readonly SocketCase[] = [...cases()];
