import { section } from "./row.ts";

/** Apps that are servers of their own. */
export const SERVERS = {
  ...section("docs/servers.md: Starting", {
    "servers.entrypoint":
      "entrypoint is a list, or one text that is split as a shell would; a list of one such text counts as that text.",
    "servers.port":
      "Each replica has a port of its own: it is put in place of the one in its command, and PORT is set.",
    "servers.port-in-code.replicas":
      "Where the isolation answers bind, a port in the code becomes the replica's own: any number run, also across deploys.",
    "servers.port-in-code.attacks":
      "A port in the code gets a server no port and no connection that it would not have: of other replicas, apps and programs.",
    "servers.port-in-code":
      "Where nothing answers bind, a port in the code means one replica; a deploy ends it first, and calls wait.",
    "servers.second-port":
      "Another TCP port in the code limits the app to one replica; a start that fails for it names the port and what to do.",
    "servers.own-listener":
      "Nothing is sent to a listener that is not the replica's: if the port was taken, another is tried.",
    "servers.start":
      "A server that ends before it is ready, or is not ready in time, fails to start; its last words tell why.",
    "servers.ready-check": "A replica whose ready check fails gets no calls until it passes again.",
    "servers.health-check": "Three failed health checks in a row end a replica.",
    "servers.busy":
      "A server that is busy is not ended for it: without endpoints it is enough that it listens, and nothing connects.",
    "servers.address": "A server is reached on whatever address of its machine it listens, IPv4 or IPv6.",
    "servers.stop": "A replica that has to end finishes its calls, gets SIGTERM, and leaves nothing behind.",
    "servers.request":
      "Every method, path, query and body reaches the server as it came; only runs/{uuid} is not the app's.",
    "servers.headers":
      "Hop-by-hop headers, Authorization and our cookies stay with us; X-Forwarded-* and X-Request-Id are set anew.",
    "servers.streaming":
      "Bodies of any size pass in both directions, no faster than the other side reads; trailers too.",
    "servers.http": "HTTP/1.0, Expect: 100-continue, HEAD and pipelined requests work.",
    "servers.limits":
      "max_body, response_grace_period and replica_concurrency hold for servers as for functions.",
    "servers.records":
      "A request is a run: its record has method, path, status, bytes and times; bodies are kept as record_payloads says.",
    "servers.cancel":
      "Cancelling a run, leaving, or a body that does not come closes the connection to the app; the slot is free again.",
    "servers.async":
      "async=true and webhookEndpoint work for a POST and are removed from the query; the response is kept and forwarded.",
    "servers.killed":
      "What a service that was killed had accepted for a server app is executed by the next one, or told as interrupted.",
    "servers.died":
      "A replica that dies fails the calls it held with 502 and no others; an async run starts again.",
    "servers.last-words": "What a server sent before its process ended reaches its caller.",
    "servers.hostile":
      "Only plainly valid HTTP/1 is passed on: else the caller gets 502 or a cut connection; the next call is unharmed.",
    "servers.walls": "On every level of isolation a server runs behind the same walls as functions do.",
    "servers.sockets":
      "A server's WebSockets work through the service: frames pass as they came, compressed end to end.",
    "servers.sockets.token":
      "A handshake has its token as a header, as a subprotocol or in the query; the app sees neither of the latter.",
    "servers.sockets.refused":
      "A handshake that the app refuses gets the app's response; an app of functions has no WebSockets.",
    "servers.sockets.close":
      "A close frame of either side passes, also to a caller who is still sending, and with it the connection ends.",
    "servers.sockets.cut":
      "A WebSocket whose app or replica ends without a close frame, or no longer reads, ends with 1011.",
    "servers.sockets.waiting":
      "If a caller disconnects before the app has answered the handshake, its slot is free again.",
    "servers.sockets.run":
      "A WebSocket is a run, with a slot as long as it lasts, and can be cancelled; its bytes each way are counted.",
    "servers.sockets.drain":
      "A replica that has to go leaves WebSockets for response_grace_period, then ends them with 1012.",
    "servers.sockets.life":
      "A WebSocket ends when it is too old or idle for too long, or when a side answers no ping.",
    "servers.sockets.frames":
      "Whatever frames a client sends, both ends see the same with the service in between as without it.",
    "servers.clients":
      "wrk, curl, also as HTTP/1.0, browsers, Python's websockets, npm's ws and Node's WebSocket work.",
    "servers.load":
      "Under deploys and kills no call fails but those on a killed replica, and every WebSocket gets a close frame.",
    "servers.scaling": "Servers scale by the same metrics as functions.",
  }),
};
