import type { Catalog } from "../apps/catalog.ts";
import { appDocument } from "../model/app-document.ts";
import { AppError } from "../model/errors.ts";
import { appUrl } from "./app-request.ts";
import type { Authenticator } from "./authenticate.ts";
import type { Connection } from "./connection.ts";
import type { Exchange } from "./exchange.ts";
import type { RequestHead } from "./request-head.ts";
import type { DocumentRoute } from "./route.ts";
import type { WhyAbsent } from "./app-request.ts";

export type DocumentParts = {
  readonly catalog: Catalog;
  readonly authenticator: Authenticator;
  /** Null: the app's address is made from the request's Host. */
  readonly publicApiUrl: string | null;
  readonly whyAbsent: WhyAbsent;
};

type DocumentRequest = {
  readonly connection: Connection;
  readonly exchange: Exchange;
  readonly head: RequestHead;
  readonly route: DocumentRoute;
};

/** `GET /v4/{project}/{app}/openapi.json`: what the app's functions take and give, to whoever may call them. */
export class DocumentHandler {
  readonly #parts: DocumentParts;

  constructor(parts: DocumentParts) {
    this.#parts = parts;
  }

  async handle(request: DocumentRequest): Promise<void> {
    const { exchange, route } = request;
    const { catalog, authenticator, publicApiUrl, whyAbsent } = this.#parts;
    const live = catalog.find(route.projectId, route.appName);
    const isPublic = live?.version.config.deployment.disableAuth ?? false;
    if (!isPublic) await authenticator.admit(request, "document");
    if (!live) throw await whyAbsent({ projectId: route.projectId, name: route.appName });
    if (exchange.request.method !== "GET") {
      throw new AppError("method_not_allowed", { headers: { allow: "GET" } });
    }
    const document = appDocument({
      appName: live.app.name,
      version: live.version.number,
      functions: await catalog.functions(live),
      url: appUrl(exchange, route, publicApiUrl),
      isPublic,
      ignoresExtra: live.version.config.deployment.extraParams === "ignore",
    });
    exchange.answerJson(200, document);
  }
}
