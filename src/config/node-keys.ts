import { resolve } from "node:path";
import { boolean, line, listOf, mapped, matching, optional } from "./readers.ts";
import type { Reader } from "./readers.ts";
import { port } from "./setting-readers.ts";
import type { SettingKey } from "./setting-key.ts";

/** What makes a service one of several, and what it shares with the others. */
export type NodeSettings = {
  /** Absolute; null means the one in the data directory, which the first start makes. */
  readonly masterKeyFile: string | null;
  /** Null means the loopback address and any free port. */
  readonly nodeUrl: string | null;
  /** Null means the port of `nodeUrl`. */
  readonly nodePort: number | null;
  /** Null means the host's name. */
  readonly nodeName: string | null;
  readonly nodeLabels: Readonly<Record<string, string>>;
  /** Null means the loopback address and any free port. */
  readonly seatUrl: string | null;
  /** Null means the port of `seatUrl`. */
  readonly seatPort: number | null;
  /** Leads to any service. */
  readonly seatServiceUrl: string | null;
  /** Whether seats wait for the next service when this one stops and is the last. */
  readonly keepSeats: boolean;
};

/** Every node reads those of all others. */
const MAX_LABELS = 20;
const LABEL = /^[a-z0-9][a-z0-9._-]{0,62}=[A-Za-z0-9._-]{1,63}$/;

/** Where other nodes reach this one. */
const nodeUrl: Reader<string> = mapped(
  matching("an address with a port, such as https://10.0.0.5:4200", (text) => {
    const { protocol, port: given, pathname, search, hash, username } = URL.parse(text) ?? {};
    const isBare = pathname === "/" && search === "" && hash === "" && username === "";
    return protocol === "https:" && given !== "" && isBare;
  }),
  (text) => new URL(text).origin,
);

const labels: Reader<Readonly<Record<string, string>>> = mapped(
  listOf(
    `at most ${MAX_LABELS} labels such as zone=a,disk=fast`,
    matching("a label such as zone=a", (text) => LABEL.test(text)),
    MAX_LABELS,
  ),
  (pairs) => Object.fromEntries(pairs.map((pair) => pair.split("=", 2))) as Record<string, string>,
);

/** Their rows, among those of all settings. */
export const NODE_KEYS: { readonly [K in keyof NodeSettings]: SettingKey<NodeSettings[K]> } = {
  masterKeyFile: {
    name: "master_key_file",
    reader: optional(mapped(line(4096), (path) => resolve(path))),
    default: null,
    meaning:
      "The file with the key that encrypts secrets in the database. It must exist, and other users must not be able to read it. If unset, `master.key` in the data directory, which the first start creates.",
  },
  nodeUrl: {
    name: "node_url",
    reader: optional(nodeUrl),
    default: null,
    meaning:
      "With Postgres: the address at which the other services of the installation reach this one, such as https://10.0.0.5:4200. If unset, only services of the same machine can.",
  },
  nodePort: {
    name: "node_port",
    reader: optional(port()),
    default: null,
    meaning:
      "With Postgres: the port on which this service listens for the others. If unset, the one of node_url, or a free one.",
  },
  nodeName: {
    name: "node_name",
    reader: optional(line(100)),
    default: null,
    meaning: "What `millrace nodes` and the dashboard call this service. If unset, the host's name.",
  },
  nodeLabels: {
    name: "node_labels",
    reader: labels,
    default: "",
    meaning: "What `millrace nodes` and the dashboard say of this service, such as zone=a,disk=fast.",
  },
  seatUrl: {
    name: "seat_url",
    reader: optional(nodeUrl),
    default: null,
    meaning:
      "With an engine that runs replicas on other machines: the address at which they reach this service, such as https://10.0.0.5:4300. If unset, only those of the same machine can.",
  },
  seatPort: {
    name: "seat_port",
    reader: optional(port()),
    default: null,
    meaning:
      "With an engine that runs replicas on other machines: the port on which this service listens for them. If unset, the one of seat_url, or a free one.",
  },
  seatServiceUrl: {
    name: "seat_service_url",
    reader: optional(nodeUrl),
    default: null,
    meaning:
      "With an engine that runs replicas on other machines: an address that leads to any service, now and later, such as that of a Kubernetes Service, at the port of seat_url. Replicas look for the next service there when all that they know are gone. A name is looked up when this service starts.",
  },
  keepSeats: {
    name: "keep_seats",
    reader: boolean(),
    default: "true",
    meaning:
      "With an engine that runs replicas on other machines: when this service stops and no other node is there, its pods or actors wait 30 s for the next service, which goes on with them. If false, they end at once.",
  },
};
