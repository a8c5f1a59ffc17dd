import { attack, proven } from "../attack.ts";
import type { Attack } from "../attack.ts";

/** From an app that has said `network = false`. */
const offline = (name: string, code: string): Attack => ({
  ...proven("process", name, code),
  from: "offline",
});

/** From an app that has said `network = "egress"`. */
const egress = (name: string, code: string): Attack => ({
  ...attack("network", name, code),
  from: "egress",
  needs: "private_port",
});

/** From an app that has said `unix_sockets = true`. */
const sockets = (name: string, code: string): Attack => ({
  ...attack("network", name, code),
  from: "sockets",
});

/** From the hostile replica, which makes it hard to say what its processes hold. */
const hiding = (name: string, code: string): Attack => ({
  ...attack("network", name, code),
  from: "replica",
  needs: "private_port",
  thenDials: true,
});

/** From a server with its port in its code, which stands for the port that its replica has. */
const server = (name: string, code: string): Attack => ({
  ...attack("network", name, code),
  from: "server",
  needs: "rival_port",
});

/** A stand-in for an address that tells a machine its own secrets, on this machine. */
const metadata = (name: string, code: string): Attack => ({
  ...attack("network", name, code),
  needs: "metadata_port",
});

/** Ways to addresses that are none of an app's business. */
export const NETWORK: readonly Attack[] = [
  attack("network", "connect to the management API", `dial(management_host, management_port)`),
  attack(
    "network",
    "the same without waiting",
    `connection = socket.socket()
connection.setblocking(False)
connection.connect_ex((management_host, management_port))
select.select([], [connection], [], 3)
code = connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
if code:
    raise OSError(code, os.strerror(code))
connection.getpeername()`,
  ),
  attack(
    "network",
    "the same by an IPv6 address that means it",
    `dial("::ffff:" + management_host, management_port)`,
  ),
  attack("network", "the same by the address of any", `dial("0.0.0.0", management_port)`),
  attack(
    "network",
    "the same with data in the first packet",
    `connection = socket.socket(); connection.sendto(b"x", 0x20000000, (management_host, management_port)); connection.getpeername()`,
  ),
  attack(
    "network",
    "the same by a message",
    `connection = socket.socket(); connection.sendmsg([b"x"], [], 0x20000000, (management_host, management_port)); connection.getpeername()`,
  ),
  attack(
    "network",
    "the same by an address that changes while it is judged",
    `require(dial_changing(("127.0.0.1", listen()), (management_host, management_port)))`,
  ),
  attack("network", "connect to a neighbour's server", `dial("127.0.0.1", neighbour_port)`),
  attack(
    "network",
    "the same by the address of any, from a socket bound to an IPv4 address of IPv6",
    `dial_bound("::ffff:127.0.0.1", "::", neighbour_port)`,
  ),
  attack(
    "network",
    "the same while many sockets close that the kernel lists before it",
    `require(dial_among_closing(neighbour_port))`,
  ),
  attack("network", "take a port that is kept for servers", `take_port(server_ports)`),
  attack("network", "the same by IPv6", `take_port(server_ports, "::1")`),
  attack("network", "the same by a name without a family", `take_port_unnamed(server_ports)`),
  attack(
    "network",
    "the same by a socket that changes while it is judged",
    `require(take_port_changing(server_ports))`,
  ),
  server("share the port of another server", `take_port_shared(rival_port)`),
  server(
    "share the port of another server by the port in the code, which that one has too",
    `require(take_port_shared(declared_port) not in (declared_port, int(os.environ["PORT"])))`,
  ),
  server(
    "share the port of another server by an address that changes while it is judged",
    `require(take_port_swapping(declared_port, (rival_port,)))`,
  ),
  server(
    "take the port in the code itself, by an address that changes while it is judged",
    `require(take_port_swapping(int(os.environ["PORT"]), (declared_port,)))`,
  ),
  server(
    "take the port in the code itself by a datagram socket that changes while it is judged",
    `require(take_port_changing([declared_port, declared_port]))`,
  ),
  server("connect to another server with the same port in its code", `dial("127.0.0.1", rival_port)`),
  server(
    "connect to another server by the port in the code",
    `require(port_behind("127.0.0.1", declared_port) != int(os.environ["PORT"]))`,
  ),
  server(
    "connect to another server by the port in the code where nothing of its own listens",
    `dial("127.0.0.9", declared_port)`,
  ),
  server(
    "connect to another server by an address that changes while it is judged",
    `require(dial_changing(("127.0.0.1", declared_port), ("127.0.0.1", rival_port)))`,
  ),
  server(
    "take the port in the code in a network namespace of its own",
    `call("unshare", 0x50000000); take_port_shared(declared_port)`,
  ),
  metadata("ask for the machine's metadata", `dial(metadata_host, metadata_port)`),
  attack(
    "network",
    "the same by one of a pair of sockets that changes while it is judged",
    `require(take_port_behind(server_ports, lambda: socket.socketpair()[0]))`,
  ),
  sockets(
    "the same by a unix socket that changes while it is judged",
    `require(take_port_behind(server_ports, lambda: socket.socket(socket.AF_UNIX)))`,
  ),
  sockets(
    "connect to the management API by a unix socket that changes while it is judged",
    `require(dial_behind_unix(management_host, management_port))`,
  ),
  sockets(
    "the same from a thread with descriptors of its own",
    `require(dial_apart(management_host, management_port))`,
  ),
  hiding("hide what the app's processes hold from those who ask who listens", `hide()`),
  hiding("the same by a program that cannot be read", `hide_program()`),
  hiding("the same by many listening sockets", `hide(); held = [listen_anywhere() for _ in range(2000)]`),
  hiding("pass off a server of the host as its own", `forge_notes(private_port)`),
  metadata(
    "ask for the machine's metadata by an IPv6 address",
    `dial("::ffff:" + metadata_host, metadata_port)`,
  ),
  metadata(
    "the same by the address of any, from a socket bound to the machine's",
    `dial_bound(metadata_host, "0.0.0.0", metadata_port)`,
  ),
  metadata(
    "the same by the address of any, written as IPv6",
    `dial_bound("::ffff:" + metadata_host, "::ffff:0.0.0.0", metadata_port)`,
  ),
  egress("connect to a private address", `dial(private_host, private_port)`),
  egress("connect to a private address by IPv6", `dial("::ffff:" + private_host, private_port)`),
  egress(
    "connect to a private address behind a server of its own",
    `own = socket.socket(socket.AF_INET6)
own.bind(("::1", private_port))
own.listen()
dial_bound("::ffff:" + private_host, "::", private_port)`,
  ),
  egress("connect to the management API from egress", `dial(management_host, management_port)`),
  offline("open a socket without a network", `socket.socket(socket.AF_INET)`),
  offline("open an IPv6 socket without a network", `socket.socket(socket.AF_INET6)`),
  offline(
    "send a datagram without a network",
    `socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("127.0.0.1", 9))`,
  ),
  offline("connect to the management API without a network", `dial(management_host, management_port)`),
];
