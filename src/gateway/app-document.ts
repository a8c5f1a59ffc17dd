import { appDocument } from "../model/app-document.ts";
import { AppError } from "../model/errors.ts";
import { type AppParts, type AppRequest, appUrl } from "./app-request.ts";

/** `GET /v4/{project}/{app}/openapi.json`: the app's functions and their schemas, for anyone who may call the app. */
export async function sendDocument(
  { catalog, authenticator, publicApiUrl, whyAbsent }: AppParts,
  request: AppRequest,
): Promise<void> {
  const { exchange, route } = request;
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
