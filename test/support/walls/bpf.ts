/** One instruction of a classic Berkeley packet filter. */
type Instruction = {
  readonly code: number;
  readonly yes: number;
  readonly no: number;
  readonly value: number;
};

/** What a filter of system calls looks at. */
type SystemCall = {
  readonly arch: number;
  readonly number: number;
  readonly arguments?: readonly (number | bigint)[];
};

/** What it answers: `allow`, `kill`, that somebody is asked, or the number of an error. */
export type Answer = "allow" | "kill" | "ask" | number;

const INSTRUCTION_BYTES = 8;
const DATA_BYTES = 64;
const ARGUMENTS_AT = 16;
const ARGUMENT_BYTES = 8;
/** What the kernel takes at most. */
const MAX_INSTRUCTIONS = 4096;

/** Runs a filter as the kernel would: the only instructions it may hold are those that ours uses. */
export function runFilter(program: Buffer, call: SystemCall): Answer {
  const data = pack(call);
  const instructions = unpack(program);
  let loaded = 0;
  for (let place = 0; place < instructions.length; place++) {
    const { code, yes, no, value } = instructions[place] as Instruction;
    switch (code) {
      case 0x20:
        loaded = data.readUInt32LE(value);
        break;
      case 0x54:
        loaded = (loaded & value) >>> 0;
        break;
      case 0x15:
        place += loaded === value ? yes : no;
        break;
      case 0x35:
        place += loaded >= value ? yes : no;
        break;
      case 0x45:
        place += (loaded & value) !== 0 ? yes : no;
        break;
      case 0x06:
        return answerOf(value);
      default:
        throw new Error(`an instruction that the kernel refuses: ${code}`);
    }
  }
  throw new Error("the filter ends without an answer");
}

function answerOf(value: number): Answer {
  if (value === 0x7fff0000) return "allow";
  if (value === 0x80000000) return "kill";
  if (value === 0x7fc00000) return "ask";
  if (value >>> 16 === 0x0005) return value & 0xffff;
  throw new Error(`an answer that the filter should not give: ${value}`);
}

function unpack(program: Buffer): Instruction[] {
  const count = program.length / INSTRUCTION_BYTES;
  if (!Number.isInteger(count) || count > MAX_INSTRUCTIONS) throw new Error(`${program.length} bytes`);
  return Array.from({ length: count }, (_, index) => {
    const at = index * INSTRUCTION_BYTES;
    return {
      code: program.readUInt16LE(at),
      yes: program.readUInt8(at + 2),
      no: program.readUInt8(at + 3),
      value: program.readUInt32LE(at + 4),
    };
  });
}

function pack({ arch, number, arguments: words = [] }: SystemCall): Buffer {
  const data = Buffer.alloc(DATA_BYTES);
  data.writeUInt32LE(number, 0);
  data.writeUInt32LE(arch, 4);
  for (const [index, word] of words.entries())
    data.writeBigUInt64LE(BigInt.asUintN(64, BigInt(word)), ARGUMENTS_AT + index * ARGUMENT_BYTES);
  return data;
}
