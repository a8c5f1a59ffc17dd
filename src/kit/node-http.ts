/**
 * What we use of `node:http`. A plain `import` of it reads every one of its exports first, and one of those loads
 * Node's WebSocket client: 60 ms of a processor at each start of a service or of a command.
 */
export const {
  Agent,
  METHODS,
  STATUS_CODES,
  ServerResponse,
  createServer,
  get,
  request,
  validateHeaderName,
  validateHeaderValue,
} = process.getBuiltinModule("node:http");
export type Agent = InstanceType<typeof Agent>;
export type ServerResponse = InstanceType<typeof ServerResponse>;
