import { execFileSync } from "node:child_process";
import path from "node:path";
import { describe, expect, test } from "vitest";
import { REPOSITORY } from "../../../support/source-files.ts";
import { type Answer, runFilter } from "../../../support/walls/bpf.ts";
import { CLONE3, MACHINES, NEWER } from "../../../support/walls/system-calls.ts";
import { verifies } from "../../../verifies.ts";

const EPERM = 1;
const ENOSYS = 38;
const EOPNOTSUPP = 95;
const EPROTONOSUPPORT = 93;
const ENOPROTOOPT = 92;
const MSG_FASTOPEN = 0x20000000;
const [SOL_SOCKET, IPPROTO_TCP, TCP_NODELAY, TCP_FASTOPEN_CONNECT] = [1, 6, 1, 30];
const [AF_UNIX, AF_INET, AF_INET6, AF_NETLINK, AF_PACKET] = [1, 2, 10, 16, 17];
const [STREAM, DGRAM, RAW, SEQPACKET] = [1, 2, 3, 5];
/** Flags that come with a socket's type: SOCK_CLOEXEC and SOCK_NONBLOCK. */
const FLAGS = 0o2004000;
const ABOVE_32_BITS = 1n << 32n;

/** Every filter there is, by its rules. */
const PRINT = `
import itertools, json, sys; sys.path.insert(0, ${JSON.stringify(path.join(REPOSITORY, "python"))})
from millrace_walls.seccomp import Rules, program
choices = {
    "network": ("true", "false", "egress"), "is_judged": (False, True), "unix": ("all", "asked", "streams", "pairs"),
    "asks_unix": (False, True), "asks_names": (False, True),
}
for machine in ("x86_64", "aarch64"):
    for values in itertools.product(*choices.values()):
        print(machine, *map(str, values), program(machine, Rules(**dict(zip(choices, values)))).hex())
`;
const PROGRAMS = new Map(
  execFileSync("python3", ["-I", "-S", "-c", PRINT], { encoding: "utf8", maxBuffer: 1 << 26 })
    .trim()
    .split("\n")
    .map((line) => {
      const words = line.split(" ");
      return [words.slice(0, -1).join(" ").toLowerCase(), Buffer.from(words.at(-1) ?? "", "hex")] as const;
    }),
);

type Rules = {
  readonly network?: true | false | "egress";
  readonly isJudged?: boolean;
  readonly unix?: "all" | "asked" | "streams" | "pairs";
  readonly asksUnix?: boolean;
  readonly asksNames?: boolean;
};
type Ask = (number: number, words?: readonly (number | bigint)[], rules?: Rules) => Answer;

for (const [name, machine] of Object.entries(MACHINES)) {
  const programFor = (rules: Rules): Buffer => {
    const { network = true, isJudged = false, unix = "all", asksUnix = false, asksNames = false } = rules;
    return PROGRAMS.get([name, network, isJudged, unix, asksUnix, asksNames].join(" ")) as Buffer;
  };
  const ask: Ask = (number, words = [], rules = {}) =>
    runFilter(programFor(rules), { arch: machine.arch, number, arguments: words });

  describe(name, () => {
    verifies("walls.filter", "what reaches beyond the app's own processes is refused", () => {
      for (const [call, number] of Object.entries({ ...machine.refused, ...NEWER }))
        expect([call, ask(number)]).toEqual([call, EPERM]);
      for (const [call, number] of Object.entries(machine.allowed))
        expect([call, ask(number)]).toEqual([call, "allow"]);
    });

    test("a program for another processor ends, and the second set of numbers does not exist", () => {
      for (const arch of [0, 0x40000003, 0x40000028, 0xc000003e, 0xc00000b7].filter(
        (a) => a !== machine.arch,
      ))
        expect(runFilter(programFor({}), { arch, number: 0 })).toBe("kill");
      for (const [, number] of Object.entries(machine.refused)) expect(ask(0x40000000 + number)).toBe(ENOSYS);
    });

    test("threads and forks are made, namespaces are not, by the older call alone", () => {
      expect(ask(CLONE3)).toBe(ENOSYS);
      expect(ask(machine.clone, [0x3d0f00])).toBe("allow");
      expect(ask(machine.clone, [17])).toBe("allow");
      const namespaces = [0x20000, 0x2000000, 0x4000000, 0x8000000, 0x10000000, 0x20000000, 0x40000000];
      for (const flag of namespaces) {
        expect(ask(machine.clone, [flag | 17])).toBe(EPERM);
        expect(ask(machine.clone, [ABOVE_32_BITS | BigInt(flag)])).toBe(EPERM);
      }
    });

    verifies("walls.filter", "limits and priorities are the caller's own", () => {
      for (const number of Object.values(machine.onAProcess)) {
        expect(ask(number, [0, 7])).toBe("allow");
        // The kernel looks at 32 bits of it, so the rest must not hide it.
        for (const pid of [4711, ABOVE_32_BITS | 4711n]) expect(ask(number, [pid, 7])).toBe(EPERM);
      }
      // Which kind, by the kernel's numbers: of a process, of a group, of a user.
      const kinds = { setpriority: [0, 1, 2], ioprio_set: [1, 2, 3] } as const;
      for (const [call, [ofProcess, ...ofMany]] of Object.entries(kinds)) {
        const number = machine[call as keyof typeof kinds];
        expect([call, ask(number, [ofProcess, 0, 10])]).toEqual([call, "allow"]);
        // A number that may be another's, even if it is the caller's own: a filter cannot know that.
        expect([call, ask(number, [ofProcess, 4711, 10])]).toEqual([call, EPERM]);
        for (const kind of ofMany)
          for (const which of [kind, ABOVE_32_BITS | BigInt(kind)])
            for (const who of [0, 4711, ABOVE_32_BITS])
              expect([call, which, who, ask(number, [which, who, 10])]).toEqual([call, which, who, EPERM]);
      }
    });

    test("no process keeps processors idle, its own name may change", () => {
      const [PR_SET_NAME, PR_SCHED_CORE] = [15, 62];
      for (const option of [PR_SCHED_CORE, ABOVE_32_BITS | BigInt(PR_SCHED_CORE)])
        expect(ask(machine.prctl, [option, 1, 4711, 2])).toBe(EPERM);
      expect(ask(machine.prctl, [PR_SET_NAME])).toBe("allow");
    });

    test("nobody types into a terminal", () => {
      for (const request of [0x5412, 0x541c]) {
        expect(ask(machine.ioctl, [0, request])).toBe(EPERM);
        // The kernel looks at 32 bits of it, so the rest must not hide it.
        expect(ask(machine.ioctl, [0, ABOVE_32_BITS | BigInt(request)])).toBe(EPERM);
      }
      expect(ask(machine.ioctl, [0, 0x5401])).toBe("allow");
    });

    test("sockets are ordinary ones", () => {
      for (const family of [AF_INET, AF_INET6])
        for (const type of [STREAM, DGRAM, STREAM | FLAGS, DGRAM | FLAGS])
          expect(ask(machine.socket, [family, type, 0])).toBe("allow");
      for (const family of [AF_INET, AF_INET6])
        for (const type of [RAW, RAW | FLAGS]) expect(ask(machine.socket, [family, type, 1])).toBe(EPERM);
      expect(ask(machine.socket, [AF_NETLINK, RAW, 0])).toBe("allow");
      expect(ask(machine.socket, [AF_NETLINK, RAW, 15])).toBe(EPERM);
      const otherProtocols = [
        [STREAM, 132], // SCTP, which has calls of its own to connect
        [STREAM, 262], // MPTCP, whose other end names further addresses
        [STREAM, 17],
        [DGRAM, 132],
        [DGRAM, 136],
        [DGRAM, 6],
      ] as const;
      for (const family of [AF_INET, AF_INET6]) {
        for (const [type, protocol] of otherProtocols)
          expect(ask(machine.socket, [family, type, protocol])).toBe(EPROTONOSUPPORT);
        // Of two kinds of sockets the kernel picks the protocol: SCTP and DCCP.
        for (const type of [SEQPACKET, 6]) expect(ask(machine.socket, [family, type, 0])).toBe(EPERM);
        for (const [type, protocol] of [
          [STREAM, 6],
          [DGRAM, 17],
          [DGRAM, 1],
          [DGRAM, 58],
        ] as const)
          expect(ask(machine.socket, [family, type, protocol])).toBe("allow");
      }
      for (const family of [0, 3, 4, 9, AF_PACKET, 29, 31, 38, 40, 44])
        expect(ask(machine.socket, [family, STREAM, 0])).toBe(EPERM);
    });

    test("without the internet both families are refused, and pairs stay", () => {
      for (const family of [AF_INET, AF_INET6])
        for (const type of [STREAM, DGRAM, RAW, SEQPACKET])
          expect(ask(machine.socket, [family, type, 0], { network: false })).toBe(EPERM);
      expect(ask(machine.socket, [AF_UNIX, STREAM, 0], { network: false })).toBe("allow");
      expect(ask(machine.socketpair, [AF_UNIX, STREAM, 0], { network: false })).toBe("allow");
      // Nothing is left to be judged.
      expect(ask(machine.connect, [], { network: false, isJudged: true })).toBe("allow");
    });

    verifies(
      "walls.connects",
      "connections are judged, none is made by sending, and others stay fast",
      () => {
        for (const network of [true, "egress"] as const) {
          const rules = { network, isJudged: true };
          for (const number of [machine.connect, machine.bind, machine.listen])
            expect(ask(number, [], rules)).toBe("ask");
          for (const [number, place] of machine.sends) {
            const withFlags = (flags: bigint) =>
              ask(number, [...Array.from({ length: place }, () => 0), flags], rules);
            expect(withFlags(0n)).toBe("allow");
            expect(withFlags(0x4040n)).toBe("allow");
            expect(withFlags(BigInt(MSG_FASTOPEN))).toBe(EOPNOTSUPP);
            expect(withFlags(ABOVE_32_BITS | BigInt(MSG_FASTOPEN))).toBe(EOPNOTSUPP);
          }
          // What is judged now must not be connected to later, when others listen there.
          expect(ask(machine.setsockopt, [3, IPPROTO_TCP, TCP_FASTOPEN_CONNECT], rules)).toBe(ENOPROTOOPT);
          for (const [level, option] of [
            [IPPROTO_TCP, TCP_NODELAY],
            [SOL_SOCKET, TCP_FASTOPEN_CONNECT],
          ] as const)
            expect(ask(machine.setsockopt, [3, level, option], rules)).toBe("allow");
          for (const type of [DGRAM, DGRAM | FLAGS])
            for (const protocol of [0, 1, 17, 58])
              expect(ask(machine.socket, [AF_INET, type, protocol], rules)).toBe(
                network === true ? "allow" : EPERM,
              );
          expect(ask(machine.socket, [AF_INET6, STREAM | FLAGS, 6], rules)).toBe("allow");
        }
        expect(ask(machine.connect)).toBe("allow");
        for (const [number] of machine.sends)
          expect(ask(number, [0, 0, MSG_FASTOPEN, MSG_FASTOPEN])).toBe("allow");
      },
    );

    verifies("walls.unix-sockets.apart", "the outer keeper is asked for names of unix sockets", () => {
      const rules = { unix: "streams", asksUnix: true, network: false } as const;
      for (const type of [STREAM, SEQPACKET, STREAM | FLAGS])
        expect(ask(machine.socket, [AF_UNIX, type, 0], rules)).toBe("allow");
      // A datagram socket names a receiver with every message, and nobody is asked.
      for (const type of [DGRAM, RAW, DGRAM | FLAGS]) {
        expect(ask(machine.socket, [AF_UNIX, type, 0], rules)).toBe(EPERM);
        expect(ask(machine.socketpair, [AF_UNIX, type, 0], rules)).toBe(EPERM);
      }
      // In a network namespace of the app's own, it reaches nobody else.
      const apart = { ...rules, unix: "asked" } as const;
      expect(ask(machine.socket, [AF_UNIX, DGRAM | FLAGS, 0], apart)).toBe("ask");
      expect(ask(machine.socket, [AF_UNIX, STREAM, 0], apart)).toBe("allow");
      expect(ask(machine.socket, [AF_UNIX, RAW, 0], apart)).toBe(EPERM);
      expect(ask(machine.socketpair, [AF_UNIX, DGRAM, 0], apart)).toBe(EPERM);
      for (const number of [machine.connect, machine.bind]) expect(ask(number, [], rules)).toBe("ask");
      expect(ask(machine.listen, [], rules)).toBe("allow");
    });

    verifies("walls.thread-names", "files are asked about only with the flags that name threads", () => {
      const [wronly, rdwr, creat, trunc, cloexec] = [0o1, 0o2, 0o100, 0o1000, 0o2000000];
      const asked = (flags: number, rules: Rules) => ask(machine.openat, [0, 0, flags], rules);
      for (const flags of [wronly | creat | trunc, rdwr]) {
        expect(asked(flags, { asksNames: true })).toBe("ask");
        expect(asked(flags, {})).toBe("allow");
      }
      for (const flags of [
        0,
        cloexec,
        rdwr | cloexec,
        wronly,
        wronly | creat | trunc | cloexec,
        rdwr | creat,
      ])
        expect(asked(flags, { asksNames: true })).toBe("allow");
    });

    verifies("walls.connects", "no option routes a connection by way of another host", () => {
      const rules = { isJudged: true };
      for (const [level, option] of [
        [0, 4],
        [41, 5],
        [41, 6],
        [41, 57],
      ] as const) {
        expect(ask(machine.setsockopt, [3, level, option], rules)).toBe(EPERM);
        expect(ask(machine.setsockopt, [3, level, option])).toBe("allow");
      }
      for (const [level, option] of [
        [0, 1],
        [41, 26],
      ] as const)
        expect(ask(machine.setsockopt, [3, level, option], rules)).toBe("allow");
    });

    test("where paths can be seen, unix sockets are pairs that stay tied to each other", () => {
      const rules = { unix: "pairs" } as const;
      for (const type of [STREAM, DGRAM, SEQPACKET])
        expect(ask(machine.socket, [AF_UNIX, type, 0], rules)).toBe(EPERM);
      for (const type of [STREAM, SEQPACKET, STREAM | FLAGS])
        expect(ask(machine.socketpair, [AF_UNIX, type, 0], rules)).toBe("allow");
      // The kernel takes a raw one for a datagram one.
      for (const type of [DGRAM, RAW, DGRAM | FLAGS])
        expect(ask(machine.socketpair, [AF_UNIX, type, 0], rules)).toBe(EPERM);
      expect(ask(machine.socket, [AF_UNIX, STREAM, 0])).toBe("allow");
      expect(ask(machine.socketpair, [AF_UNIX, DGRAM, 0])).toBe("allow");
    });
  });
}
