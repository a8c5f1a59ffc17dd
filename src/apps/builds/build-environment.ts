import path from "node:path";
import { appEnvironment } from "../../host/app-environment.ts";

/** Beyond what replicas see: the host's choice of index, proxy and certificates. */
const PASSED_ON = /^(PIP|UV)_|^(HTTPS?|ALL|NO)_PROXY$/i;
const PASSED_BY_NAME = ["REQUESTS_CA_BUNDLE", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"];
/** These would send packages elsewhere than into the app's environment. */
const NEVER = /^PIP_(USER|TARGET|PREFIX|ROOT|PYTHON)$|^UV_(PYTHON|TARGET|PREFIX|SYSTEM_PYTHON)$/;

/**
 * What commands and installers of a build find in their environment. `bin` comes first on their path, one folder or several;
 * `environment` is the folder of packages they may change, null where that is none: shared ones are not told.
 */
export function buildEnvironment(
  host: NodeJS.ProcessEnv,
  bin: string,
  environment: string | null,
): Record<string, string> {
  const passed: Record<string, string> = {};
  for (const [name, value] of Object.entries(host)) {
    if (value === undefined || NEVER.test(name)) continue;
    if (PASSED_ON.test(name) || PASSED_BY_NAME.includes(name)) passed[name] = value;
  }
  return appEnvironment(host, {
    ...passed,
    PATH: host["PATH"] ? `${bin}${path.delimiter}${host["PATH"]}` : bin,
    // A prompt would wait for somebody who is not there.
    GIT_TERMINAL_PROMPT: "0",
    PIP_NO_INPUT: "1",
    PIP_DISABLE_PIP_VERSION_CHECK: "1",
    // A file of the host's may say `user = true`.
    PIP_USER: "0",
    // A pip that is not the environment's own shall not change the host.
    PIP_REQUIRE_VIRTUALENV: "1",
    // uv goes by the first, a pip that is not the environment's own by the second.
    ...(environment !== null && {
      VIRTUAL_ENV: environment,
      PIP_PYTHON: path.join(environment, "bin", "python"),
    }),
    ...(host["PIP_CERT"] && { SSL_CERT_FILE: host["PIP_CERT"] }),
  });
}
