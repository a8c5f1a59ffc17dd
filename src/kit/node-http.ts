/** Parts of `node:http`. A plain `import` reads all exports, and one loads Node's WebSocket client: 60 ms at each start. */
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
