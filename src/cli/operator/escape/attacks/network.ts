import { type Attack, attacks, type Codes, proven } from "../attack.ts";

/** From an app with `network = false`. */
const offline = (codes: Codes): Attack[] => attacks("process", codes, { from: "offline", isProven: true });
/** From an app with `network = "egress"`. */
const fromEgress = (codes: Codes): Attack[] =>
  attacks("network", codes, { from: "egress", needs: "private_port" });
/** From an app with `unix_sockets = true`. */
const withUnixSockets = (codes: Codes): Attack[] => attacks("network", codes, { from: "sockets" });
/** From the hostile replica, which makes it hard to find out what its processes hold. */
const hiding = (codes: Codes): Attack[] =>
  attacks("network", codes, { from: "replica", needs: "private_port", thenDials: true });
/** From a server with its port in its code, which stands for the port that its replica has. */
const fromServer = (codes: Codes): Attack[] =>
  attacks("network", codes, { from: "server", needs: "rival_port" });
/** To a stand-in, on this machine, for the address where clouds tell a machine its secrets. */
const toMetadata = (codes: Codes): Attack[] => attacks("network", codes, { needs: "metadata_port" });
/** Sent on the replica's own wire; it has succeeded if the service goes on as if nothing had happened. */
const onWire = (codes: Codes): Attack[] => attacks("service", codes, { from: "replica" });

/** Ways to addresses that apps must not reach. */
export const NETWORK: readonly Attack[] = [
  ...attacks("network", {
    "connect to the management API": `dial(management_host, management_port)`,
    "the same without waiting": `connection = socket.socket()
connection.setblocking(False)
connection.connect_ex((management_host, management_port))
select.select([], [connection], [], 3)
code = connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
if code:
    raise OSError(code, os.strerror(code))
connection.getpeername()`,
    "the same by an IPv6 address that means it": `dial("::ffff:" + management_host, management_port)`,
    "the same by the address of any": `dial("0.0.0.0", management_port)`,
    "the same with data in the first packet": `connection = socket.socket(); connection.sendto(b"x", 0x20000000, (management_host, management_port)); connection.getpeername()`,
    "the same by a message": `connection = socket.socket(); connection.sendmsg([b"x"], [], 0x20000000, (management_host, management_port)); connection.getpeername()`,
    "the same by an address that changes while it is judged": `require(dial_changing(("127.0.0.1", listen()), (management_host, management_port)))`,
    "connect to a neighbour's server": `dial("127.0.0.1", neighbour_port)`,
    "the same by the address of any, from a socket bound to an IPv4 address of IPv6": `dial_bound("::ffff:127.0.0.1", "::", neighbour_port)`,
    "the same while many sockets close that the kernel lists before it": `require(dial_among_closing(neighbour_port))`,
    "take a port that is kept for servers": `take_port(server_ports)`,
    "the same by IPv6": `take_port(server_ports, "::1")`,
    "the same by a name without a family": `take_port_unnamed(server_ports)`,
    "the same by a socket that changes while it is judged": `require(take_port_changing(server_ports))`,
    "the same by one of a pair of sockets that changes while it is judged": `require(take_port_behind(server_ports, lambda: socket.socketpair()[0]))`,
  }),
  ...withUnixSockets({
    "the same by a unix socket that changes while it is judged": `require(take_port_behind(server_ports, lambda: socket.socket(socket.AF_UNIX)))`,
    "connect to the management API by a unix socket that changes while it is judged": `require(dial_behind_unix(management_host, management_port))`,
    "the same from a thread with descriptors of its own": `require(dial_apart(management_host, management_port))`,
  }),
  ...fromServer({
    "share the port of another server": `take_port_shared(rival_port)`,
    "share the port of another server by the port in the code, which that one has too": `require(take_port_shared(declared_port) not in (declared_port, int(os.environ["PORT"])))`,
    "share the port of another server by an address that changes while it is judged": `require(take_port_swapping(declared_port, (rival_port,)))`,
    "take the port in the code itself, by an address that changes while it is judged": `require(take_port_swapping(int(os.environ["PORT"]), (declared_port,)))`,
    "take the port in the code itself by a datagram socket that changes while it is judged": `require(take_port_changing([declared_port, declared_port]))`,
    "connect to another server with the same port in its code": `dial("127.0.0.1", rival_port)`,
    "connect to another server by the port in the code": `require(port_behind("127.0.0.1", declared_port) != int(os.environ["PORT"]))`,
    "connect to another server by the port in the code where nothing of its own listens": `dial("127.0.0.9", declared_port)`,
    "connect to another server by an address that changes while it is judged": `require(dial_changing(("127.0.0.1", declared_port), ("127.0.0.1", rival_port)))`,
    "take the port in the code in a network namespace of its own": `call("unshare", 0x50000000); take_port_shared(declared_port)`,
  }),
  ...toMetadata({
    "ask for the machine's metadata": `dial(metadata_host, metadata_port)`,
    "ask for the machine's metadata by an IPv6 address": `dial("::ffff:" + metadata_host, metadata_port)`,
    "the same by the address of any, from a socket bound to the machine's": `dial_bound(metadata_host, "0.0.0.0", metadata_port)`,
    "the same by the address of any, written as IPv6": `dial_bound("::ffff:" + metadata_host, "::ffff:0.0.0.0", metadata_port)`,
  }),
  ...hiding({
    "hide what the app's processes hold from those who ask who listens": `hide()`,
    "the same by a program that cannot be read": `hide_program()`,
    "the same by many listening sockets": `hide(); held = [listen_anywhere() for _ in range(2000)]`,
    "pass off a server of the host as its own": `forge_notes(private_port)`,
  }),
  ...fromEgress({
    "connect to a private address": `dial(private_host, private_port)`,
    "connect to a private address by IPv6": `dial("::ffff:" + private_host, private_port)`,
    "connect to a private address behind a server of its own": `own = socket.socket(socket.AF_INET6)
own.bind(("::1", private_port))
own.listen()
dial_bound("::ffff:" + private_host, "::", private_port)`,
    "connect to the management API from egress": `dial(management_host, management_port)`,
  }),
  ...offline({
    "open a socket without a network": `socket.socket(socket.AF_INET)`,
    "open an IPv6 socket without a network": `socket.socket(socket.AF_INET6)`,
    "send a datagram without a network": `socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("127.0.0.1", 9))`,
    "connect to the management API without a network": `dial(management_host, management_port)`,
  }),
];

const CONTROL_REQUEST = String.raw`b"POST /bootstrap HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}"`;

/** Sockets that no app needs. */
export const SOCKETS: readonly Attack[] = [
  ...proven("process", {
    "connect to the control socket": `socket.socket(socket.AF_UNIX).connect(sockets + "/control.sock")`,
    "connect to the replicas' home": `socket.socket(socket.AF_UNIX).connect(sockets + "/home.sock")`,
    "connect to a docker.sock": `socket.socket(socket.AF_UNIX).connect(victim_folder + "/docker.sock")`,
  }),
  ...attacks("process", {
    "the same by the service's root": `socket.socket(socket.AF_UNIX).connect("/proc/%d/root%s/docker.sock" % (service_pid, victim_folder))`,
  }),
  ...proven("process", {
    "listen beside the service's sockets": `path = sockets + "/planted.sock"
socket.socket(socket.AF_UNIX).bind(path)
os.unlink(path)`,
    "send to a path by a pair of sockets": `socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)[0].sendto(b"x", victim_folder + "/datagram.sock")`,
    "the same by a raw pair": `socket.socketpair(socket.AF_UNIX, socket.SOCK_RAW)[0].sendto(b"x", victim_folder + "/datagram.sock")`,
    "connect to an abstract socket": String.raw`socket.socket(socket.AF_UNIX).connect("\0" + victim_abstract)`,
    "send to an abstract socket": String.raw`socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b"x", "\0" + victim_abstract + "-datagram")`,
  }),
  ...attacks("process", {
    // Also stopped by the key that the socket asks for.
    "ask the control socket for the owner's token": `require(b'"token"' in ask(sockets + "/control.sock", ${CONTROL_REQUEST}))`,
    "open a raw socket": `socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)`,
    "open a raw IPv6 socket": `socket.socket(socket.AF_INET6, socket.SOCK_RAW, 58)`,
    "open a packet socket": `socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)`,
    "open a socket of the kernel's ciphers": `socket.socket(38, socket.SOCK_SEQPACKET)`,
    "open a socket to virtual machines": `socket.socket(40, socket.SOCK_STREAM)`,
    "open a socket past the network's layers": `socket.socket(44, socket.SOCK_RAW)`,
    "open a socket of a car's bus": `socket.socket(29, socket.SOCK_DGRAM)`,
    "listen to the kernel's events": `socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 15)`,
    "talk to the kernel's firewall": `socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 12)`,
    "talk to the kernel's audit": `socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 9)`,
  }),
];

/** Ways to impersonate others, or to tell the service lies. */
export const WIRE: readonly Attack[] = [
  ...onWire({
    "answer a call that it was not given": `send_frame(4, 4000, struct.pack("<dH", 1, 200) + b'"forged"')`,
    "answer the next call before it comes": `send_frame(4, harness("call_id") + 1, struct.pack("<dH", 1, 200) + b'"forged"')`,
    "answer with what is not JSON": `send_frame(4, harness("call_id"), struct.pack("<dH", 1, 200) + b"{")`,
    "answer with a time that never was": `send_frame(4, harness("call_id"), struct.pack("<dH", -1, 200) + b"1")`,
    "fail another's call": `send_frame(5, 4000, b'{"kind": "raised"}')`,
    "stream for a call that it was not given": `send_frame(7, 4000, b"\\0forged")`,
    "say hello again": `send_frame(2, 0, b"{}")`,
    "cancel what nobody cancelled": `send_frame(9, harness("call_id"), b"")`,
    "say what no replica says": `send_frame(200, harness("call_id"), b"")`,
    "announce more than there may be": `send_frame(4, harness("call_id"), b"", claimed=0xFFFFFFFF)`,
  }),
  ...attacks("service", {
    "impersonate a replica with a guessed ticket": `require(bool(knock(b"millrace 1 wire " + b"0" * 32).recv(1)))`,
    "impersonate a template with a guessed ticket": `require(bool(knock(b"millrace 1 template " + b"f" * 32).recv(1)))`,
    "show its ticket a second time": `require(bool(knock(b"millrace 1 wire " + harness("ticket").encode()).recv(1)))`,
    "hide a second line in its request": String.raw`knock(b"millrace 1 wire " + b"0" * 32 + b"\nmillrace 1 control " + b"0" * 32)`,
    "name another process as its own": `knock(b"millrace 1 wire " + b"0" * 32 + b" 1")`,
  }),
];
