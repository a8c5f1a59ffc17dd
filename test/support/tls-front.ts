import { request as httpRequest } from "node:http";
import { createServer } from "node:https";
import type { AddressInfo } from "node:net";
import { onTestFinished } from "vitest";
import { MAIL_CERTIFICATE, MAIL_KEY } from "./mail-certificate.ts";

/** A proxy that speaks TLS for a listener, as one in production does; its certificate is good for nothing. */
export type TlsFront = {
  readonly port: number;
  /** Where requests go, once that is known. */
  target: string;
  /** The Cookie headers that came, in order. */
  readonly cookies: string[];
};

/** Starts one; it ends with the test. */
export async function tlsFront(): Promise<TlsFront> {
  const cookies: string[] = [];
  const server = createServer({ key: MAIL_KEY, cert: MAIL_CERTIFICATE }, (request, response) => {
    if (request.headers.cookie !== undefined) cookies.push(request.headers.cookie);
    const { method, url = "/", headers } = request;
    const on = httpRequest(
      front.target + url,
      { ...(method && { method }), headers, agent: false },
      (answer) => {
        response.writeHead(answer.statusCode ?? 502, answer.rawHeaders);
        answer.pipe(response);
      },
    );
    on.on("error", () => response.destroy());
    request.pipe(on);
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  const front = { port: (server.address() as AddressInfo).port, target: "", cookies };
  return front;
}
