import { createServer } from "node:http";
import type { ClientRequest, IncomingMessage, RequestOptions, Server } from "node:http";

type Send = (
  options: Pick<RequestOptions, "method" | "path"> & { readonly headers: readonly string[] },
  onAnswer: (answer: IncomingMessage) => void,
) => ClientRequest;

/** `node:http` in front of another server, to which `send` leads: headers and bodies piped as they are, nothing else. */
export function barePass(send: Send): Server {
  return createServer({ noDelay: true }, (req, res) => {
    const { method, url: path, rawHeaders: headers } = req;
    const forwarded = send({ method, path, headers }, (answer) => {
      res.writeHead(answer.statusCode ?? 502, answer.rawHeaders);
      answer.pipe(res);
    });
    forwarded.on("error", () => res.destroy());
    req.pipe(forwarded);
  });
}
