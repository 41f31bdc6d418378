# SPDX-License-Identifier: GPL-2.0-or-later
# An image that runs tlbcost, made of the Debian package; doc/install.md has what it needs.
ARG BASE=debian:bookworm-slim

FROM ${BASE} AS build
RUN apt-get update && apt-get install -y --no-install-recommends build-essential ca-certificates
COPY . /usr/src/tlbcost
WORKDIR /usr/src/tlbcost
RUN apt-get build-dep -y --no-install-recommends ./ && dpkg-buildpackage -us -uc -b

FROM ${BASE}
COPY --from=build /usr/src/tlbcost_*.deb /srv/packages/
RUN apt-get update && \
    apt-get install -y --no-install-recommends /srv/packages/tlbcost_*.deb && \
    rm -rf /srv/packages /var/lib/apt/lists/* && \
    useradd --create-home user
# Root is for what needs it: --user root.
USER user
WORKDIR /home/user
ENTRYPOINT ["tlbcost"]
CMD ["doctor"]
