import { execFileSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { networkInterfaces, tmpdir } from "node:os";
import path from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { networkFields, networkVariables, type NetworkWall } from "../../../../src/host/walls/network.ts";
import { REPOSITORY } from "../../../support/source-files.ts";
import { OPEN_NETWORK } from "../../../support/walls/open-network.ts";
import { verifies } from "../../../verifies.ts";

const WALL: NetworkWall = {
  ...OPEN_NETWORK,
  hasWalls: true,
  gap: null,
  egressAllow: ["10.1.0.0/16", "fd00:1::/32"],
  networkDeny: ["198.41.0.4/32"],
  managementPort: () => 4100,
};

/** The addresses are not connected to: only asked about. Nobody listens but on port 80 of this machine, and who does is told. */
const JUDGE = `
import json, sys; sys.path.insert(0, ${JSON.stringify(path.join(REPOSITORY, "python"))})
import socket, struct
from millrace_walls import judge
from millrace_walls.addresses import nameservers, read_name
from millrace_walls.plan import Plan
asked = json.load(sys.stdin)
judge.nameservers = lambda: nameservers(asked["settings"])
class Listeners:
    def at(self, address):
        return {asked["owner"]} if asked["owner"] and address.port == 80 else set()
rest = dict.fromkeys(("level", "home", "program", "order", "bundle", "harness", "storage", "scratch", "data_dir"), "")
judged = judge.Judge(Plan([*rest.items(), *map(tuple, asked["fields"])]), Listeners())
def name(text, port):
    if ":" in text:
        return struct.pack("=H", socket.AF_INET6) + struct.pack("!HI", port, 0) + socket.inet_pton(socket.AF_INET6, text) + bytes(4)
    return struct.pack("=H", socket.AF_INET) + struct.pack("!H", port) + socket.inet_aton(text) + bytes(8)
print(json.dumps([judged.permits(read_name(name(*each))) for each in asked["addresses"]]))
`;

type Question = {
  readonly network: true | "egress";
  readonly addresses: readonly string[];
  readonly port?: number;
  readonly owner?: "own" | "neighbour" | "service" | "other";
  readonly isGuest?: boolean;
  readonly resolv?: string;
  readonly wall?: NetworkWall;
};

/** Which of the addresses are permitted. */
function permitted(question: Question): string[] {
  const { network, addresses, port = 80, owner, isGuest = false, resolv = "", wall = WALL } = question;
  const folder = mkdtempSync(path.join(tmpdir(), "millrace-judge-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const settings = path.join(folder, "resolv.conf");
  writeFileSync(settings, resolv);
  const asked = {
    fields: [...networkFields(network, wall), ["guest", String(isGuest)]],
    addresses: addresses.map((address) => [address, port]),
    owner: owner ?? "",
    settings,
  };
  const answer = execFileSync("python3", ["-I", "-S", "-c", JUDGE], {
    input: JSON.stringify(asked),
    encoding: "utf8",
  });
  const verdicts = JSON.parse(answer) as boolean[];
  return addresses.filter((_, index) => verdicts[index]);
}

const PUBLIC = ["1.1.1.1", "93.184.216.34", "2606:4700::1111", "64:ff9b::101:101", "::ffff:1.1.1.1"];
const PRIVATE_4 = ["10.0.0.1", "172.16.0.1", "192.168.1.1", "100.64.0.1", "169.254.1.1", "224.0.0.1"];
const PRIVATE_6 = [
  "fc00::1",
  "fe80::1",
  "ff02::1",
  "2001:db8::1",
  "2002:a00:1::1",
  "64:ff9b::a00:1",
  "::a00:1",
];
const PRIVATE = [...PRIVATE_4, ...PRIVATE_6, "255.255.255.255", "::ffff:10.0.0.1"];
const METADATA_4 = ["169.254.169.254", "::ffff:169.254.169.254", "64:ff9b::a9fe:a9fe", "100.100.100.200"];
const METADATA = [...METADATA_4, "fd00:ec2::254", "198.41.0.4"];
const HERE = ["127.0.0.1", "127.9.9.9", "0.0.0.0", "::1", "::", "::ffff:127.0.0.1", "::ffff:0.0.0.0"];

verifies(
  "walls.connects",
  "true excludes metadata in every spelling, and the management port of this machine",
  () => {
    expect(permitted({ network: true, addresses: METADATA })).toEqual([]);
    expect(permitted({ network: true, addresses: [...PUBLIC, ...PRIVATE] })).toEqual([...PUBLIC, ...PRIVATE]);
    expect(permitted({ network: true, addresses: HERE, port: 4100 })).toEqual([]);
    expect(permitted({ network: true, addresses: PUBLIC, port: 4100 })).toEqual(PUBLIC);
  },
);

verifies(
  "walls.nodes",
  "the management port of another node is out of reach, and nothing else of its machine",
  () => {
    const folder = mkdtempSync(path.join(tmpdir(), "millrace-nodes-"));
    onTestFinished(() => rmSync(folder, { recursive: true }));
    const neighbours = path.join(folder, "neighbours");
    const wall = { ...WALL, neighbours, egressAllow: ["10.0.0.0/8", "fd00::/16"] };
    writeFileSync(neighbours, "10.0.0.5:4100\n[fd00::5]:4100\nnonsense\n[::1\n10.0.0.6:70000000000\n");
    const there = ["10.0.0.5", "::ffff:10.0.0.5", "64:ff9b::a00:5", "fd00::5"];
    const others = ["10.0.0.6", "fd00::6", "1.1.1.1"];
    for (const network of [true, "egress"] as const) {
      expect(permitted({ network, addresses: [...there, ...others], port: 4100, wall })).toEqual(others);
      expect(permitted({ network, addresses: there, port: 4000, wall })).toEqual(there);
    }
    // One on this machine, by whichever of its addresses.
    const [own] = Object.values(networkInterfaces())
      .flatMap((each) => each ?? [])
      .filter(({ internal, family }) => !internal && family === "IPv4");
    const told = own?.address ?? "127.0.0.1";
    writeFileSync(neighbours, `${told}:4101\n`);
    const here = [...HERE, told];
    expect(permitted({ network: true, addresses: here, port: 4101, wall })).toEqual([]);
    expect(permitted({ network: true, addresses: here, port: 4102, wall })).toEqual(here);
    expect(permitted({ network: true, addresses: others, port: 4101, wall })).toEqual(others);
  },
);

verifies(
  "walls.connects",
  "an address of one link is this machine's without a word which link: the socket may be bound to it",
  (context) => {
    const interfaces = Object.values(networkInterfaces()).flatMap((each) => each ?? []);
    const addresses = interfaces.map(({ address }) => address).filter((each) => each.startsWith("fe80:"));
    if (addresses.length === 0) context.skip("this machine has no address of one link");
    expect(permitted({ network: true, addresses, port: 4100 })).toEqual([]);
    expect(permitted({ network: true, addresses, owner: "neighbour" })).toEqual([]);
    expect(permitted({ network: true, addresses })).toEqual(addresses);
  },
);

verifies("walls.connects", "a port of this machine is judged by who listens there", () => {
  for (const owner of ["own", "service", "other", undefined] as const)
    expect(permitted({ network: true, addresses: HERE, ...(owner && { owner }) })).toEqual(HERE);
  expect(permitted({ network: true, addresses: HERE, owner: "neighbour" })).toEqual([]);
  // Until it is known which port the management API has, it may be any of the service's.
  const wall = { ...WALL, managementPort: () => 0 };
  expect(permitted({ network: true, addresses: HERE, owner: "service", wall })).toEqual([]);
});

verifies("walls.egress", "egress leads outside, to what is allowed, and to the app itself", () => {
  expect(permitted({ network: "egress", addresses: [...PUBLIC, ...PRIVATE, ...METADATA] })).toEqual(PUBLIC);
  const allowed = ["10.1.2.3", "::ffff:10.1.2.3", "fd00:1::5"];
  expect(permitted({ network: "egress", addresses: [...allowed, "10.2.0.1"] })).toEqual(allowed);
  expect(permitted({ network: "egress", addresses: HERE, owner: "own" })).toEqual(HERE);
  for (const owner of ["neighbour", "service", "other", undefined] as const)
    expect(permitted({ network: "egress", addresses: HERE, ...(owner && { owner }) })).toEqual([]);
});

verifies("walls.egress", "the host's name servers answer on port 53, and on no other", () => {
  const resolv =
    "# of this test\nsearch example.com\nnameserver 10.9.9.9\nnameserver fd00::53%eth0\nnameserver nonsense\n";
  const addresses = ["10.9.9.9", "fd00::53", "10.9.9.8", "127.0.0.1"];
  expect(permitted({ network: "egress", addresses, resolv, port: 53 })).toEqual(["10.9.9.9", "fd00::53"]);
  expect(permitted({ network: "egress", addresses, resolv, port: 80 })).toEqual([]);
});

test("the outer keeper is told what is in force, and nothing where nothing is", () => {
  expect(networkFields(false, WALL)).toEqual([
    ["network", "false"],
    ["notifier", "true"],
  ]);
  expect(networkFields(false, OPEN_NETWORK)).toEqual([["network", "false"]]);
  expect(networkFields("egress", OPEN_NETWORK)).toEqual([["network", "egress"]]);
  expect(networkFields(true, { ...WALL, egressOnly: true })).toEqual(networkFields("egress", WALL));
  expect(networkFields(true, WALL).map(([name]) => name)).not.toContain("private");
  expect(Object.keys(networkVariables("egress", WALL))).toEqual(["RES_OPTIONS", "GRPC_DNS_RESOLVER"]);
  expect(networkVariables(true, WALL)).toEqual({});
  expect(networkVariables("egress", OPEN_NETWORK)).toEqual({});
});

verifies("seats.walls", "on a machine of others an app reaches of what listens there its own", () => {
  const here = { network: true, addresses: HERE, isGuest: true } as const;
  expect(permitted({ ...here, owner: "own" })).toEqual(HERE);
  for (const owner of ["neighbour", "service", "other"] as const)
    expect(permitted({ ...here, owner })).toEqual([]);
  expect(permitted(here)).toEqual([]);
  expect(permitted({ ...here, addresses: [...PUBLIC, "10.0.0.1"] })).toEqual([...PUBLIC, "10.0.0.1"]);
});
