# The service on one machine: Node and Python, nothing else. Data is in the volume.
FROM node:24-bookworm-slim AS build
WORKDIR /build
COPY package.json package-lock.json .npmrc ./
RUN npm ci --ignore-scripts
COPY . .
RUN npm run build && npm prune --omit=dev --ignore-scripts

FROM node:24-bookworm-slim
RUN apt-get update \
  && apt-get install --yes --no-install-recommends python3 python3-venv python3-pip \
  && rm -rf /var/lib/apt/lists/* \
  && useradd --create-home --uid 10001 millrace \
  && install -d -o millrace /data /shared
WORKDIR /opt/millrace
COPY --from=build /build/package.json ./
COPY --from=build /build/node_modules ./node_modules
COPY --from=build /build/bin ./bin
COPY --from=build /build/dist ./dist
COPY --from=build /build/python ./python
COPY --from=build /build/examples ./examples
USER millrace
ENV MILLRACE_DATA_DIR=/data MILLRACE_HOST=0.0.0.0
VOLUME /data
EXPOSE 4000 4100
HEALTHCHECK --interval=10s --timeout=3s --start-period=20s \
  CMD ["node", "-e", "fetch('http://127.0.0.1:4100/livez').then((r) => process.exit(r.ok ? 0 : 1), () => process.exit(1))"]
# The service's own grace is 30 s: let the container have a little more.
STOPSIGNAL SIGTERM
ENTRYPOINT ["bin/millrace"]
CMD ["serve"]
