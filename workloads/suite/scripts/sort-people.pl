# SPDX-License-Identifier: GPL-2.0-or-later
# Who lives where, in the order of towns, ages and names?  Each person is a hash
# with values of its own; a comparison goes to those of two, anywhere on the heap.
use strict;
use warnings;

my %options = ( '--people' => 120000, '--towns' => 500 );
while ( defined( my $option = shift ) ) {
	if ( $option eq '--help' ) {
		print "usage: sort-people.pl [--people N] [--towns N]\n",
			"  --people N  people (120000)\n",
			"  --towns N   towns that they live in (500)\n";
		exit 0;
	}
	if ( !exists $options{$option} ) {
		print STDERR "sort-people.pl: unknown option: $option\n";
		exit 2;
	}
	my $value = shift;
	if ( !defined $value || $value !~ /^[1-9][0-9]*$/ ) {
		print STDERR "sort-people.pl: $option needs a number of at least 1\n";
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

sub name {
	return join '', map { chr( 97 + below(26) ) } 1 .. 3 + below(8);
}

my @people = map {
	{
		name => name(),
		age  => below(100),
		town => 'town' . below( $options{'--towns'} ),
		id   => $_,
	}
} 1 .. $options{'--people'};

my @sorted = sort {
	$a->{town} cmp $b->{town}
		|| $b->{age} <=> $a->{age}
		|| $a->{name} cmp $b->{name}
		|| $a->{id} <=> $b->{id}
} @people;

# Remainders keep it below 2^53, too.
my $checksum = 0;
for my $person (@sorted) {
	$checksum = ( $checksum * 31 + $person->{id} + length $person->{name} ) % 1099511627689;
}
printf "checksum %016x\n", $checksum;
