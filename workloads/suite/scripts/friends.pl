# SPDX-License-Identifier: GPL-2.0-or-later
# Whom might somebody know?  Who has most friends in common.  Each person's
# friends are a hash by their names: one question goes through some dozens of
# hashes, which lie anywhere on the heap, and fills one of its own.
use strict;
use warnings;

my %options = ( '--people' => 60000, '--friends' => 6, '--count' => 8000 );
while ( defined( my $option = shift ) ) {
	if ( $option eq '--help' ) {
		print "usage: friends.pl [--people N] [--friends N] [--count N]\n",
			"  --people N   people (60000)\n",
			"  --friends N  that each of them finds (6)\n",
			"  --count N    people who ask for more (8000)\n";
		exit 0;
	}
	if ( !exists $options{$option} ) {
		print STDERR "friends.pl: unknown option: $option\n";
		exit 2;
	}
	my $value = shift;
	if ( !defined $value || $value !~ /^[1-9][0-9]*$/ ) {
		print STDERR "friends.pl: $option needs a number of at least 1\n";
		exit 2;
	}
	$options{$option} = $value;
}

# A product below 2^53: the same everywhere.
my $state = 1;

sub below {
	my ($n) = @_;
	$state = $state * 48271 % 2147483647;
	return int( $state / 2147483647 * $n );
}

my @names = map { 'person-' . below(1000000) . "-$_" } 1 .. $options{'--people'};
my %friends;

# Friendship goes both ways; some have many friends.
for my $name (@names) {
	for ( 1 .. $options{'--friends'} ) {
		my $other = $names[ below( 1 + below( $options{'--people'} ) ) ];
		next if $other eq $name;
		$friends{$name}{$other} = 1;
		$friends{$other}{$name} = 1;
	}
}

# Remainders keep it below 2^53, too.
my $checksum = 0;
for ( 1 .. $options{'--count'} ) {
	my $name = $names[ below( $options{'--people'} ) ];
	my %common;
	for my $friend ( keys %{ $friends{$name} } ) {
		$common{$_}++ for keys %{ $friends{$friend} };
	}
	my ( $most, $best ) = ( 0, '' );
	for my $other ( keys %common ) {
		next if $other eq $name || $friends{$name}{$other};
		my $count = $common{$other};

		# Of several it is the first by name: the order of keys is another each time.
		if ( $count > $most || ( $count == $most && $other lt $best ) ) {
			( $most, $best ) = ( $count, $other );
		}
	}
	my $number = $best =~ /-(\d+)$/ ? $1 : 0;
	$checksum = ( $checksum * 31 + $most * 1000003 + $number ) % 1099511627689;
}
printf "checksum %016x\n", $checksum;
