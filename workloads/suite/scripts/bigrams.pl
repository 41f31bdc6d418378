# SPDX-License-Identifier: GPL-2.0-or-later
# Which words follow which in a text?  Counts them in a hash of hashes, where
# keys, values and tables are allocations of their own, anywhere on the heap.
use strict;
use warnings;

my %options = ( '--words' => 40000, '--count' => 1000000 );
while ( defined( my $option = shift ) ) {
	if ( $option eq '--help' ) {
		print "usage: bigrams.pl [--words N] [--count N]\n",
			"  --words N  words that there are (40000)\n",
			"  --count N  words of the text (1000000)\n";
		exit 0;
	}
	if ( !exists $options{$option} ) {
		print STDERR "bigrams.pl: unknown option: $option\n";
		exit 2;
	}
	my $value = shift;
	if ( !defined $value || $value !~ /^[1-9][0-9]*$/ ) {
		print STDERR "bigrams.pl: $option needs a number of at least 1\n";
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

my ( %follows, $checksum );
my $last = 'the';
for ( 1 .. $options{'--count'} ) {
	# Some words are frequent, most are rare.
	my $word = 'w' . below( 1 + below( $options{'--words'} ) );
	$follows{$last}{$word}++;
	$last = $word;
}

# The order of keys is another each time.
for my $word ( keys %follows ) {
	my $most = 0;
	for my $count ( values %{ $follows{$word} } ) {
		$most = $count if $count > $most;
	}
	$checksum += $most * ( length($word) + keys %{ $follows{$word} } );
}
printf "checksum %016x\n", $checksum;
