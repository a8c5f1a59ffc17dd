import { expect } from "vitest";
import { readSocketToken } from "../../../../src/gateway/proxy/socket-token.ts";
import { verifies } from "../../../verifies.ts";

verifies("servers.sockets.token", "a token in the query is the app's own where another one is given", () => {
  const target = "/chat?token=t&room=1";
  const offers = ["Sec-WebSocket-Protocol", "millrace, millrace.bearer.p"];
  expect(readSocketToken("Bearer h", offers, target)).toEqual({ authorization: "Bearer h", target });
  expect(readSocketToken(null, offers, target)).toEqual({ authorization: "Bearer p", target });
  expect(readSocketToken(null, [], target)).toEqual({ authorization: "Bearer t", target: "/chat?room=1" });
  expect(readSocketToken(null, [], "/chat")).toEqual({ authorization: null, target: "/chat" });
});
