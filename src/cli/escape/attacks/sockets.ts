import { attack, proven } from "../attack.ts";
import type { Attack } from "../attack.ts";

const CONTROL_REQUEST = String.raw`b"POST /bootstrap HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{}"`;

/** Sockets without which an app does its work. */
export const SOCKETS: readonly Attack[] = [
  proven(
    "process",
    "connect to the control socket",
    `socket.socket(socket.AF_UNIX).connect(sockets + "/control.sock")`,
  ),
  // Also stopped by the key that the socket asks for.
  attack(
    "process",
    "ask the control socket for the owner's token",
    `require(b'"token"' in ask(sockets + "/control.sock", ${CONTROL_REQUEST}))`,
  ),
  proven(
    "process",
    "connect to the replicas' home",
    `socket.socket(socket.AF_UNIX).connect(sockets + "/home.sock")`,
  ),
  proven(
    "process",
    "connect to a docker.sock",
    `socket.socket(socket.AF_UNIX).connect(victim_folder + "/docker.sock")`,
  ),
  attack(
    "process",
    "the same by the service's root",
    `socket.socket(socket.AF_UNIX).connect("/proc/%d/root%s/docker.sock" % (service_pid, victim_folder))`,
  ),
  proven(
    "process",
    "listen beside the service's sockets",
    `path = sockets + "/planted.sock"
socket.socket(socket.AF_UNIX).bind(path)
os.unlink(path)`,
  ),
  proven(
    "process",
    "send to a path by a pair of sockets",
    `socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)[0].sendto(b"x", victim_folder + "/datagram.sock")`,
  ),
  proven(
    "process",
    "the same by a raw pair",
    `socket.socketpair(socket.AF_UNIX, socket.SOCK_RAW)[0].sendto(b"x", victim_folder + "/datagram.sock")`,
  ),
  proven(
    "process",
    "connect to an abstract socket",
    String.raw`socket.socket(socket.AF_UNIX).connect("\0" + victim_abstract)`,
  ),
  proven(
    "process",
    "send to an abstract socket",
    String.raw`socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM).sendto(b"x", "\0" + victim_abstract + "-datagram")`,
  ),
  attack("process", "open a raw socket", `socket.socket(socket.AF_INET, socket.SOCK_RAW, 1)`),
  attack("process", "open a raw IPv6 socket", `socket.socket(socket.AF_INET6, socket.SOCK_RAW, 58)`),
  attack("process", "open a packet socket", `socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)`),
  attack("process", "open a socket of the kernel's ciphers", `socket.socket(38, socket.SOCK_SEQPACKET)`),
  attack("process", "open a socket to virtual machines", `socket.socket(40, socket.SOCK_STREAM)`),
  attack("process", "open a socket past the network's layers", `socket.socket(44, socket.SOCK_RAW)`),
  attack("process", "open a socket of a car's bus", `socket.socket(29, socket.SOCK_DGRAM)`),
  attack("process", "listen to the kernel's events", `socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 15)`),
  attack("process", "talk to the kernel's firewall", `socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 12)`),
  attack("process", "talk to the kernel's audit", `socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 9)`),
];
