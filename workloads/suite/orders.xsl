<?xml version="1.0"?>
<!-- SPDX-License-Identifier: GPL-2.0-or-later -->
<!-- What was ordered from each town?  For xsltproc: orders find their customers by a key. -->
<xsl:stylesheet version="1.0" xmlns:xsl="http://www.w3.org/1999/XSL/Transform">
	<xsl:output method="text"/>
	<xsl:key name="customer" match="customer" use="@id"/>
	<xsl:key name="town" match="order" use="key('customer', @customer)/town"/>
	<xsl:template match="/shop">
		<xsl:for-each select="customer[generate-id() = generate-id(key('customer', @id)[1])]">
			<xsl:sort select="town"/>
			<xsl:sort select="name"/>
			<xsl:if test="position() mod 5000 = 1">
				<xsl:variable name="orders" select="key('town', town)"/>
				<xsl:value-of select="concat(town, ' ', count($orders), ' ', sum($orders/price), '&#10;')"/>
			</xsl:if>
		</xsl:for-each>
	</xsl:template>
</xsl:stylesheet>
