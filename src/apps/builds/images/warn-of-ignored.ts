import type { AppConfig } from "../../../model/app-config.ts";
import type { BuildSite } from "../site.ts";

/** Says what of an app's configuration does not count, because it has a Dockerfile. */
export function warnOfIgnored(
  { deployment, dependencies }: AppConfig,
  { say }: Pick<BuildSite, "say">,
): void {
  const ignored = [
    ...(Object.keys(dependencies.pip).length > 0 ? ["dependencies.pip"] : []),
    ...(Object.keys(dependencies.apt).length > 0 ? ["dependencies.apt"] : []),
    ...(Object.keys(dependencies.conda).length > 0 ? ["dependencies.conda"] : []),
    ...(deployment.shellCommands.length > 0 ? ["shell_commands"] : []),
    ...(deployment.preBuildCommands.length > 0 ? ["pre_build_commands"] : []),
    ...(deployment.dockerBaseImageUrl === null ? [] : ["docker_base_image_url"]),
  ];
  if (ignored.length > 0)
    say(`warning: the Dockerfile decides what is installed: ignoring ${ignored.join(", ")}`, "stderr");
}
