//! The servers that a URL names, each by itself: so that one that says nothing takes up its own time
//! and not that of the next.

use tokio_postgres::{
    Config,
    config::{Host, LoadBalanceHosts, SslMode},
};

/// Whether all servers are reached through sockets of the file system, over which the protocol knows
/// no encryption.
pub(crate) fn are_sockets(config: &Config) -> bool {
    let is_socket = |host: &Host| matches!(host, Host::Unix(_));
    let hosts = config.get_hosts();
    config.get_hostaddrs().is_empty() && !hosts.is_empty() && hosts.iter().all(is_socket)
}

/// A configuration for each host, in order. One for all where the client is to choose among them by
/// chance.
pub(crate) fn one_by_one(config: &Config) -> Vec<Config> {
    let (hosts, addresses) = (config.get_hosts(), config.get_hostaddrs());
    let count = hosts.len().max(addresses.len());
    let is_well_formed =
        (hosts.is_empty() || addresses.is_empty() || hosts.len() == addresses.len())
            && (config.get_ports().len() <= 1 || config.get_ports().len() == count);
    let is_by_chance = config.get_load_balance_hosts() == LoadBalanceHosts::Random;
    if count <= 1 || !is_well_formed || is_by_chance {
        return vec![config.clone()]; // or for the client to say what is wrong
    }
    (0..count)
        .map(|at| {
            let mut one = without_hosts(config);
            match hosts.get(at) {
                Some(Host::Tcp(name)) => one.host(name),
                Some(Host::Unix(path)) if addresses.is_empty() => {
                    one.host_path(path).ssl_mode(SslMode::Disable)
                }
                Some(Host::Unix(path)) => one.host_path(path),
                None => &mut one,
            };
            if let Some(address) = addresses.get(at) {
                one.hostaddr(*address);
            }
            if let Some(port) = port_of(config, at) {
                one.port(port);
            }
            one
        })
        .collect()
}

fn port_of(config: &Config, at: usize) -> Option<u16> {
    config.get_ports().get(at).or_else(|| config.get_ports().first()).copied()
}

/// All that a configuration says but where the servers are: the client has no way to take that back.
fn without_hosts(from: &Config) -> Config {
    let mut to = Config::new();
    to.ssl_mode(from.get_ssl_mode())
        .ssl_negotiation(from.get_ssl_negotiation())
        .keepalives(from.get_keepalives())
        .keepalives_idle(from.get_keepalives_idle())
        .target_session_attrs(from.get_target_session_attrs())
        .channel_binding(from.get_channel_binding())
        .load_balance_hosts(from.get_load_balance_hosts());
    from.get_user().map(|user| to.user(user));
    from.get_password().map(|password| to.password(password));
    from.get_dbname().map(|name| to.dbname(name));
    from.get_options().map(|options| to.options(options));
    from.get_application_name().map(|name| to.application_name(name));
    from.get_connect_timeout().map(|time| to.connect_timeout(*time));
    from.get_tcp_user_timeout().map(|time| to.tcp_user_timeout(*time));
    from.get_keepalives_interval().map(|time| to.keepalives_interval(time));
    from.get_keepalives_retries().map(|times| to.keepalives_retries(times));
    to
}

/// Where the servers are, for messages, as a URL without an account.
pub(crate) fn shown(config: &Config) -> String {
    let hosts: Vec<String> = config
        .get_hosts()
        .iter()
        .map(|host| match host {
            Host::Tcp(name) if name.contains(':') => format!("[{name}]"),
            Host::Tcp(name) => name.clone(),
            // A slash would end the host.
            Host::Unix(path) => path.display().to_string().replace('/', "%2F"),
        })
        .collect();
    let hosts = if hosts.is_empty() {
        config.get_hostaddrs().iter().map(ToString::to_string).collect()
    } else {
        hosts
    };
    let with_ports: Vec<String> = hosts
        .into_iter()
        .enumerate()
        .map(|(at, host)| match port_of(config, at) {
            Some(port) => format!("{host}:{port}"),
            None => host,
        })
        .collect();
    format!("postgres://{}/{}", with_ports.join(","), config.get_dbname().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_host_gets_all_that_the_url_says_and_its_own_port() {
        let rest = "/d?sslmode=require&sslnegotiation=direct&keepalives=0&keepalives_idle=5\
                    &keepalives_interval=6&keepalives_retries=7&tcp_user_timeout=8&connect_timeout=9\
                    &application_name=n&options=-c%20a%3Db&channel_binding=require\
                    &target_session_attrs=read-write";
        let config =
            |hosts: &str| -> Config { format!("postgres://u:p@{hosts}{rest}").parse().unwrap() };
        let mut alone = ["one:1", "[::1]:2", "%2Frun%2Fpg:3"].map(config);
        // A socket of the file system is not encrypted.
        alone[2].ssl_mode(SslMode::Disable);
        assert_eq!(one_by_one(&config("one:1,[::1]:2,%2Frun%2Fpg:3")), alone);
        assert_eq!(one_by_one(&alone[0]), [alone[0].clone()]);
        let one_port: Config = "host=a,b port=7 user=u".parse().unwrap();
        let ports: Vec<_> =
            one_by_one(&one_port).iter().map(|one| one.get_ports().to_vec()).collect();
        assert_eq!(ports, [[7], [7]]);
        for kept_whole in ["host=a,b port=1,2,3", "host=a,b load_balance_hosts=random"] {
            let config: Config = kept_whole.parse().unwrap();
            assert_eq!(one_by_one(&config), [config]);
        }
    }

    #[test]
    fn servers_are_shown_as_a_url_names_them_and_without_the_password() {
        let same = "postgres://one:1,[::1]:2,%2Frun%2Fpg:3/d";
        assert_eq!(shown(&same.replace("//", "//u:secret@").parse().unwrap()), same);
        let config = "host=a,b port=7 dbname=d password=secret".parse().unwrap();
        assert_eq!(shown(&config), "postgres://a:7,b:7/d");
        assert_eq!(shown(&"hostaddr=10.0.0.1".parse().unwrap()), "postgres://10.0.0.1/");
    }
}
